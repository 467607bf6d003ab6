//! What cannot be kept is refused, and leases go on; those that it was about, from their records.

use crate::story::{BUYER, SELLER, tell};
use crate::world::World;

/// Whatever was done until then, the leases go on: no pod is made or ended again.
#[test]
fn an_input_that_cannot_be_kept_is_refused_beside_all_leases() {
    refuse(1, false);
}

/// The lease that the input was about begins anew, and goes on as it would have.
#[test]
fn an_input_that_cannot_be_kept_is_refused_with_the_lease_that_it_was_about() {
    refuse(3, true);
}

/// At each so manieth step of either side.
fn refuse(each: usize, of_leases: bool) {
    for node in [BUYER, SELLER] {
        let mut calm = World::new();
        tell(&mut calm);
        for refuse_at in (1..calm.nodes[node].steps).step_by(each) {
            println!("{node} refuses an input after {refuse_at}");
            let mut world = World::new();
            world.nodes[node].refuse_at = Some((refuse_at, of_leases));
            tell(&mut world);
            assert_eq!(world.nodes[node].refuse_at, None);
        }
    }
}

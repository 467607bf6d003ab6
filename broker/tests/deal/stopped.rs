//! What of the owner's word holds once nothing is shared any more.

use mercato_broker::{Approve, Command, DevicePolicy, Record, RecordKey, SharePolicy};

use crate::world::{SELLER, World, policy};

fn word() -> DevicePolicy {
    let models = [("NVIDIA-GB300".to_owned(), "gb300".parse().unwrap())].into();
    DevicePolicy { models, ..DevicePolicy::default() }
}

/// What is on disk of what the seller shares.
fn kept(world: &World) -> Option<&SharePolicy> {
    match world.nodes[SELLER].records.get(&RecordKey::Share) {
        Some(Record::Share(policy)) => Some(policy),
        other => other.map(|other| panic!("{other:?}")),
    }
}

fn devices(world: &World) -> Option<&DevicePolicy> {
    world.nodes[SELLER].broker.devices()
}

#[test]
fn the_word_on_devices_outlives_what_is_shared_and_a_start() {
    let mut world = World::acquainted(Approve::Auto, 0);
    let share = SharePolicy { devices: word(), ..policy(Approve::Auto) };
    world.command(SELLER, Command::Share(Some(share.clone()))).unwrap();
    world.command(SELLER, Command::Share(None)).unwrap();
    for _ in 0..2 {
        assert_eq!((world.nodes[SELLER].broker.share(), devices(&world)), (None, Some(&word())));
        // The release before reads it, and sells nothing by it.
        let kept = kept(&world).unwrap();
        assert!(kept.amounts.is_empty() && kept.devices == word(), "{kept:?}");
        assert!(world.nodes[SELLER].broker.offer().is_none());
        world.crash(SELLER);
        // Nothing is shared again: no other word is lost.
        world.command(SELLER, Command::Share(None)).unwrap();
    }
    world.command(SELLER, Command::Share(Some(policy(Approve::Auto)))).unwrap();
    assert_eq!(devices(&world), Some(&DevicePolicy::default()), "the next word is another");
    world.command(SELLER, Command::Share(None)).unwrap();
    assert_eq!((kept(&world), devices(&world)), (None, None), "nothing was said of devices");
}

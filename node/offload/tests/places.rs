//! Guest namespaces that have other names: what home says again, and when the provider holds
//! nothing of a home namespace, so that it may be elsewhere.

mod told;

use mercato_offload::guest::{self, Failure};
use mercato_offload::home;
use mercato_offload::key::{Item, ObjectKind, key};
use mercato_offload::message::{Report, Route, Stage, ToGuest, ToHome};
use mercato_protocol::id::{ClusterId, Digest};

use told::{Asked, Lied, PROVIDER, at_home, pod, put, refusal};

/// The names under which things were put.
fn places(told: &[ToGuest]) -> Vec<(&Item, Option<&str>)> {
    let mut places = Vec::new();
    for said in told {
        let ToGuest::Put { item, place, .. } = said else { continue };
        places.push((item, place.as_deref()));
    }
    places
}

#[test]
fn another_name_is_said_of_what_may_wait_for_it() {
    let mut lied = Lied::to();
    let (web, keys) = (Item::Pod(pod("u1", "web")), key(ObjectKind::Secret, "shop", "keys"));
    let called =
        |name: &str| home::Input::Pod(home::HomePod { place: Some(name.to_owned()), ..at_home() });
    lied.takes(called("shop-eu"));
    lied.says(vec![ToHome::HaveEnd]);
    let digest = Some(Digest::of(b"keys"));
    lied.takes(home::Input::Object { key: keys.clone(), digest });
    let keys = Item::Object(keys);
    assert_eq!(places(&lied.told), [(&web, Some("shop-eu")), (&keys, Some("shop-eu"))]);
    lied.told.clear();
    lied.says(vec![ToHome::Refused { item: web.clone(), refusal: refusal() }]);
    lied.takes(called("shop-eu"));
    assert_eq!(places(&lied.told), [], "nothing is new");
    lied.takes(called("shop-us"));
    assert_eq!(places(&lied.told), [(&web, Some("shop-us"))]);
    lied.told.clear();
    let report = Report { status: Some(Digest::of(b"running")), stage: Stage::Live };
    lied.says(vec![ToHome::Status { pod: pod("u1", "web"), report }]);
    lied.takes(called("shop-fr"));
    assert_eq!(places(&lied.told), [], "it is there, and stays where it is");
}

#[test]
fn what_was_refused_is_tried_at_once_in_another_place() {
    let mut asked = Asked::of_provider();
    let items =
        [Item::Object(key(ObjectKind::Secret, "shop", "keys")), Item::Pod(pod("u1", "web"))];
    for item in &items {
        asked.is_told(put(item.clone()));
        assert!(asked.session.holds("shop"), "it is being made");
        let refused = guest::Input::NotWritten(item.clone(), Failure::Refused(refusal()));
        let told = ToHome::Refused { item: item.clone(), refusal: refusal() };
        assert_eq!(asked.says(refused), [told]);
        assert!(!asked.session.holds("shop"));
    }
    assert_eq!(asked.does(guest::Input::Moved("other".to_owned())), []);
    let again = asked.does(guest::Input::Moved("shop".to_owned()));
    let tried = |item: &Item| {
        again.iter().any(|effect| matches!(effect, guest::Effect::Apply(of, ..) if of == item))
    };
    assert!(items.iter().all(tried), "{again:?}");
}

#[test]
fn slices_are_made_again_when_pods_are_known_by_other_ranges() {
    let mut asked = Asked::of_provider();
    let [slice, service] = [ObjectKind::EndpointSlice, ObjectKind::Service]
        .map(|kind| Item::Object(key(kind, "shop", "web")));
    let applied = |effects: Vec<guest::Effect>| -> Vec<Item> {
        let applied = effects.into_iter().filter_map(|effect| {
            if let guest::Effect::Apply(item, ..) = effect { Some(item) } else { None }
        });
        applied.collect()
    };
    for item in [&slice, &service] {
        asked.is_told(put(item.clone()));
    }
    // It is being written by the ranges before.
    assert_eq!(applied(asked.does(guest::Input::Reached)), []);
    let of_slice = std::slice::from_ref(&slice);
    assert_eq!(applied(asked.does(guest::Input::Written(slice.clone()))), of_slice);
    asked.does(guest::Input::Written(service));
    assert_eq!(applied(asked.does(guest::Input::Written(slice.clone()))), []);
    // It is as it was said, and made by ranges that hold no more.
    assert_eq!(applied(asked.does(guest::Input::Reached)), of_slice);
    assert_eq!(applied(asked.does(guest::Input::Written(slice.clone()))), []);
}

#[test]
fn what_may_be_there_is_held() {
    let mut asked = Asked::of_provider();
    let web = Item::Pod(pod("u1", "web"));
    asked.is_told(put(web.clone()));
    asked.does(guest::Input::NotWritten(web.clone(), Failure::Unanswered));
    assert!(asked.session.holds("shop"), "it may have been made");
    assert!(!asked.session.holds("other"));
    asked.does(guest::Input::Moved("shop".to_owned()));
    asked.does(guest::Input::NotWritten(web.clone(), Failure::Refused(refusal())));
    assert!(asked.session.holds("shop"), "by the first attempt");
    asked.does(guest::Input::Gone(web.clone()));
    asked.does(guest::Input::NotWritten(web.clone(), Failure::Refused(refusal())));
    assert!(!asked.session.holds("shop"), "the first attempt has come to nothing");
    asked.does(guest::Input::Moved("shop".to_owned()));
    asked.does(guest::Input::Written(web));
    assert!(asked.session.holds("shop"));
    let config = guest::Config { cluster: PROVIDER, consumer: told::HOME, transit: false };
    let unknown = guest::GuestSession::restore(config, []);
    assert!(unknown.holds("shop"), "before it is known what is there");
}

/// It would hang at a virtual node that its own provider's scheduler chose. Its owner is told which
/// way it came.
#[test]
fn a_guest_is_sent_on_only_where_it_may_go_further() {
    let (origin, id) = (ClusterId([9; 32]), pod("u2", "guest"));
    let web = Item::Pod(id.clone());
    let no_further = "the pod has come from another cluster and may go no further: ";
    for (path, hops, why) in [
        (vec![origin], 1, None),
        (vec![origin], 0, Some(format!("{no_further}origin 09090909, path 09090909, hops left 0"))),
        (
            vec![origin, PROVIDER],
            1,
            Some(format!(
                "the pod has been there before: origin 09090909, path 09090909 > {}, hops left 1",
                PROVIDER.short()
            )),
        ),
    ] {
        let mut lied = Lied::to();
        let route = Some(Box::new(Route { origin, path, hops }));
        let (pod, needs) = (id.clone(), Vec::new());
        lied.takes(home::Input::Pod(home::HomePod { pod, needs, route, ..at_home() }));
        lied.says(vec![ToHome::HaveEnd]);
        let sent = places(&lied.told).iter().any(|(item, _)| **item == web);
        assert_eq!(sent, why.is_none(), "{hops} hops left");
        let written = lied.effects.iter().find_map(|effect| {
            let home::Effect::Write(of, home::Write::Refusal(why)) = effect else { return None };
            (*of == id).then_some(why)
        });
        assert_eq!(written.map(|refusal| &refusal.reason), why.as_ref());
    }
}

#[test]
fn a_guest_that_comes_by_a_wrong_way_is_refused_with_it() {
    let (home, here, far) = (told::HOME, PROVIDER, ClusterId([9; 32]));
    for (path, why) in [
        (vec![far, here, home], "it has been here before"),
        (vec![far, home], "the contract does not allow what comes from further away"),
        (vec![far], "the path does not lead from its origin to the consumer"),
    ] {
        let mut asked = Asked::of_provider();
        let item = Item::Pod(pod("u1", "web"));
        let way: Vec<String> = path.iter().map(ClusterId::short).collect();
        let route = Route { origin: far, path, hops: 3 };
        let digest = Digest::of(b"web");
        let put = ToGuest::Put { item: item.clone(), digest, route, place: None };
        let frame = asked.home.send(0, vec![put]);
        let said = asked.says(guest::Input::Frame(frame));
        let refused = said.into_iter().find_map(|said| {
            let ToHome::Refused { item: of, refusal } = said else { return None };
            (of == item).then_some(refusal.reason)
        });
        let way = way.join(" > ");
        assert_eq!(refused, Some(format!("{why}: origin 09090909, path {way}, hops left 3")));
    }
}

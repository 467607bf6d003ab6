//! What a selector says, and what is wrong with one.

use mercato_broker::syntax::{FromText as _, Show as _};
use mercato_broker::{Affiliation, Exclusion, Input, Membership, Selector};
use mercato_protocol::ad::{Assurance, Attribute};
use mercato_protocol::egress::{EgressOffer, Outside};
use mercato_protocol::gpu::{GpuMode, GpuPool};
use mercato_protocol::id::FederationId;

use crate::fair::{NOW, ad, body, broker, found, gpu, header, select, selecting, with_pool};

const DOCS: &str = include_str!("../../../docs/selectors.md");

fn wrong(text: &str) -> (usize, String) {
    let error = Selector::from_text(text).unwrap_err();
    (error.column(), error.line())
}

#[test]
fn a_wrong_character_is_pointed_at() {
    for (text, column, said) in [
        ("gpu.modle=h100", 1, "expected gpu.model, gpu.vendor, gpu.mem, gpu.count"),
        ("cpus>=4", 1, "or a claim with a dot in its name"),
        ("=4", 1, "expected provider, trust,"),
        ("gpu.mem>=80GB", 12, "a unit of memory: Ki, Mi, Gi, Ti, k, M, G or T at character 12"),
        ("gpu.mem>=80Gi gpu.count=1", 15, "a comma and another term, or the end"),
        ("gpu.model>=h100", 10, "=, !=, in or notin, since gpu.model is a word"),
        ("gpu.model~h100", 10, "=, !=, <, <=, >, >=, in, notin"),
        ("gpu.model in h100", 14, "expected '('"),
        ("gpu.model in (h100", 19, "a comma and another value, or ')'"),
        ("gpu.model in ()", 15, "a word, or a text in double quotes"),
        ("gpu.isolation=hard", 15, "none, limit or hardware"),
        ("class=gold", 7, "spot or reserved"),
        ("rtt<=30", 8, "a unit of latency: us, ms or s"),
        ("rtt<=0.0001ms", 6, "whole microseconds"),
        ("reclaim>=1", 11, "a unit of time"),
        ("gpu.count>=1.5", 12, "a whole number"),
        ("gpu.count>=-1", 12, "a number"),
        ("gpu.cuda>=x", 11, "a version of up to three numbers"),
        ("gpu.cuda>=1.2.3.4", 11, "a version of up to three numbers"),
        ("price.gpu.EUR<=2.50", 20, "expected '/'"),
        ("price.gpu.eur<=2/h", 11, "a currency"),
        ("price.gpus.EUR<=2/h", 1, "price. and one of cpu, memory, pods, storage and gpu"),
        ("price.gpu.EUR<=0.0000001/h", 16, "at most six decimals"),
        ("cert.iso27001@anyone", 15, "self, issuer or third-party"),
        ("region=\"Turin", 14, "expected '\"'"),
        ("region=eu, ", 12, "expected provider, trust,"),
        ("è=1", 1, "expected provider, trust,"),
        ("gpu.mem>=99999999999999999999999999999999999999999", 10, "a smaller number"),
    ] {
        let (at, line) = wrong(text);
        assert_eq!(at, column, "{text}: {line}");
        assert!(line.contains(said), "{text}: {line}");
    }
}

#[test]
fn an_error_has_an_example_that_is_right() {
    let said = Selector::from_text("jurisdiction=IT, gpu.mem>=80GB").unwrap_err().to_string();
    let lines: Vec<_> = said.lines().collect();
    assert!(lines[0].ends_with("for example gpu.mem>=80Gi"), "{said}");
    assert_eq!(lines[1..], ["  jurisdiction=IT, gpu.mem>=80GB", "                              ^"]);
}

#[test]
fn too_much_is_refused_at_once() {
    let many = |n: usize| vec!["cpu>=1"; n].join(",");
    assert!(Selector::from_text(&many(32)).is_ok());
    assert_eq!(wrong(&many(33)), (225, "expected at most 32 terms at character 225, for example gpu.model in (h100,h200), jurisdiction=IT".to_owned()));
    let (_, line) = wrong(&many(10_000));
    assert!(line.starts_with("expected at most 4096 bytes at character 4097"), "{line}");
    let values = |n: usize| format!("region in ({})", vec!["a"; n].join(","));
    assert!(Selector::from_text(&values(64)).is_ok());
    assert!(wrong(&values(65)).1.contains("at most 64 values"));
}

#[test]
fn the_page_is_true() {
    let rows = DOCS.lines().filter(|line| line.starts_with("| `"));
    let mut names = Vec::new();
    for row in rows {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let [_, name, _, _, example, _] = cells[..] else { continue };
        let [name, example] = [name, example].map(|cell| cell.trim_matches('`'));
        let selector = Selector::from_text(example).unwrap();
        assert_eq!(selector.terms()[0].name(), name, "{row}");
        names.push(name);
    }
    let (_, all) = wrong("gpu.x");
    let (_, plain) = wrong("x");
    let (_, pod) = wrong("pod.x");
    for said in [all, plain, pod] {
        let listed = said.split(" at character").next().unwrap();
        let listed = listed.trim_start_matches("expected ").replace(" or ", ", ");
        let listed = listed.split(", ").map(|name| name.trim_matches(','));
        for name in listed.filter(|name| !name.contains(' ')) {
            assert!(names.contains(&name), "{name} is not in the docs");
        }
    }
    for line in DOCS.lines().filter_map(|line| line.strip_prefix("$ mercato ")) {
        let selector = line.split('\'').nth(1).unwrap();
        assert_eq!(Selector::from_text(selector).is_ok(), !line.contains("80GB"), "{line}");
    }
}

#[test]
fn text_and_selector_are_one() {
    for text in
        ["", "carbon", "region = \"Turin, north\" ,cpu >= 4", "org.tier@issuer in ( a , b )"]
    {
        let selector = Selector::from_text(text).unwrap();
        assert_eq!(Selector::from_text(&selector.show()), Ok(selector.clone()), "{text}");
        let json = serde_json::to_string(&selector).unwrap();
        assert_eq!(serde_json::from_str::<Selector>(&json).unwrap(), selector);
    }
    assert!(serde_json::from_str::<Selector>("\"cpu>=\"").is_err());
}

fn claim(name: &str, value: &str, assurance: Assurance) -> Attribute {
    Attribute { name: name.parse().unwrap(), value: value.to_owned(), assurance }
}

/// A provider vouches for itself as a third party would; a federation that certifies it vouches
/// for something else.
#[test]
fn only_certificates_raise_a_claim() {
    let mut says = ad("turin");
    body(&mut says).attributes = vec![
        claim("cert.iso27001", "true", Assurance::ThirdParty),
        claim("org.tier", "platinum", Assurance::Issuer),
    ];
    body(&mut says).jurisdiction = Some("IT".to_owned());
    let provider = says.header.provider;
    let mut broker = broker([says]);
    let certificate = vec![
        claim("jurisdiction", "FR", Assurance::Issuer),
        claim("cert.bsi", "c5", Assurance::ThirdParty),
        claim("org.tier", "gold", Assurance::Issuer),
    ];
    let affiliation = Affiliation {
        federation: FederationId([7; 32]),
        name: "alps".parse().unwrap(),
        organisation: None,
        sells: true,
        buys: true,
        attributes: certificate.into(),
    };
    let certified = [(provider, vec![affiliation])].into();
    let membership = Membership { certified, ..Membership::default() };
    for (selector, before, after) in [
        ("cert.iso27001", true, true),
        ("cert.iso27001@issuer", false, false),
        ("cert.iso27001@third-party", false, false),
        ("cert.bsi", false, true),
        ("cert.bsi@third-party=c5", false, true),
        ("org.tier=platinum", true, true),
        ("org.tier@issuer=platinum", false, false),
        ("org.tier@issuer=gold", false, true),
        ("org.tier@third-party", false, false),
        ("jurisdiction=IT", true, true),
        ("jurisdiction@self=IT", true, true),
        ("jurisdiction@issuer=IT", false, false),
        ("jurisdiction@issuer in (FR,DE)", false, true),
        ("jurisdiction@third-party", false, false),
    ] {
        broker.handle(NOW, Input::Membership(Membership::default()));
        assert_eq!(!select(&broker, selector).is_empty(), before, "{selector}, not certified");
        broker.handle(NOW, Input::Membership(membership.clone()));
        assert_eq!(!select(&broker, selector).is_empty(), after, "{selector}, certified");
    }
    let market = broker.browse(NOW, &selecting("org.tier@third-party"), true);
    let lacks = Exclusion::Term {
        attribute: "org.tier".to_owned(),
        said: Some("platinum@self and gold@issuer".to_owned()),
    };
    assert_eq!(market.excluded[0].nearest.lacks, [lacks]);
}

/// One provider in Turin that says much, and one that says nothing.
#[test]
fn each_attribute_decides() {
    let mut says = ad("turin");
    body(&mut says).jurisdiction = Some("IT".to_owned());
    body(&mut says).region = Some("Turin, north".to_owned());
    body(&mut says).carbon_g_per_kwh = Some(180);
    header(&mut says).rows[0].free.storage_bytes = 100 << 30;
    body(&mut says).storage_classes = vec!["fast".to_owned(), "slow".to_owned()];
    body(&mut says).attributes = vec![
        claim("cert.iso27001", "true", Assurance::Issuer),
        claim("org.tier", "gold", Assurance::SelfAsserted),
    ];
    let broker = broker([says, ad("silent")]);
    let both = ["silent/amd64", "turin/amd64"];
    for (selector, turin, silent) in [
        ("", true, true),
        ("provider=turin", true, false),
        ("trust=stranger", true, true),
        ("jurisdiction in (FR,IT)", true, false),
        ("jurisdiction notin (FR)", true, false),
        ("jurisdiction!=FR", true, false),
        ("jurisdiction!=IT", false, false),
        ("region=\"Turin, north\"", true, false),
        ("carbon", true, false),
        ("carbon<=180, carbon>=180, carbon<181, carbon>179", true, false),
        ("carbon<180", false, false),
        ("carbon notin (1,2)", true, false),
        ("storage.kind=slow", true, false),
        ("storage.kind!=slow", false, false),
        ("storage.kind!=other", true, false),
        ("storage>=100Gi", true, false),
        ("storage>100Gi", false, false),
        ("cert.iso27001", true, false),
        ("cert.iso27001@self=true", true, false),
        ("cert.iso27001@issuer", false, false),
        ("org.tier in (gold,silver)", true, false),
        ("org.tier@issuer", false, false),
        ("reputation", false, false),
        ("rtt<=1s", false, false),
        ("rtt>=0ms", false, false),
        ("class=reserved, isolation=runc, network-isolation=required", true, true),
        ("pod-security!=privileged, reclaim>=1h, term>=1d, term<30d", true, true),
        ("arch=amd64, os=linux, pool=amd64", true, true),
        ("cpu>=16, memory>=64Gi, pods=110, pod.cpu<=16, pod.memory=65536Mi", true, true),
        ("cpu>16", false, false),
        ("price=free, price.cpu.EUR=0/h", true, true),
        ("gpu.model", false, false),
    ] {
        let expected: Vec<_> = both.iter().zip([silent, turin]).filter(|(_, is)| *is).collect();
        let mut found = select(&broker, selector);
        found.sort();
        assert!(found.iter().eq(expected.iter().map(|(name, _)| **name)), "{selector}: {found:?}");
    }
}

#[test]
fn terms_on_gpus_are_about_the_same_gpus() {
    let price = "cpu=0.02 EUR/h, gpu.h100=2.40 EUR/h, gpu.l4=0.40 EUR/h";
    let mut both = with_pool(ad("turin"), "gpus", "cpu=8", price, Some(gpu("h100", 2, 80)));
    body(&mut both).pools[1].gpus.push(gpu("l4", 8, 24));
    header(&mut both).rows[1].free.gpus.insert("l4".parse().unwrap(), 8);
    let broker = broker([both]);
    for (selector, matches) in [
        ("gpu.model", true),
        ("gpu.model=h100, gpu.count>=2", true),
        ("gpu.model=h100, gpu.count>=4", false),
        ("gpu.model=l4, gpu.count>=4, gpu.mem=24Gi", true),
        ("gpu.mem>=80Gi, gpu.count>=4", false),
        ("gpu.model=h100, price.gpu.EUR<=2.40/h", true),
        ("gpu.model=h100, price.gpu.EUR<=57.60/d", true),
        ("gpu.model=h100, price.gpu.EUR<57.60/d", false),
        ("gpu.model=l4, price.gpu.EUR<=0.40/h", true),
        ("gpu.count>=4, price.gpu.EUR>=2/h", false),
        ("gpu.model=h100, price.gpu.USD<=100/h", false),
        ("gpu.model, price.memory.EUR=0/h, price.cpu.EUR=0.48/d", true),
        ("gpu.cuda>=12.3, gpu.cuda<12.10, gpu.driver>=570.124.6, gpu.capability=9", true),
        ("gpu.cuda>=12.5", false),
        ("gpu.mode=exclusive, gpu.isolation=hardware, gpu.vendor=nvidia, gpu.per-node>=8", true),
        ("gpu.interconnect!=pcie", false),
    ] {
        assert_eq!(!select(&broker, selector).is_empty(), matches, "{selector}");
    }
}

#[test]
fn a_family_is_each_of_its_models_and_no_part() {
    let price = "cpu=0.02 EUR/h";
    let sells =
        |model| broker([with_pool(ad("turin"), "gpus", "cpu=8", price, Some(gpu(model, 2, 80)))]);
    for (model, terms, holds) in [
        ("h100-80gb-sxm", "gpu.model=h100", true),
        ("h100-80gb-sxm", "gpu.model in (l4,h100)", true),
        ("h100-80gb-sxm", "gpu.model=h100-80gb-sxm", true),
        ("h100-80gb-sxm", "gpu.model=h100-80gb-pcie", false),
        ("h100-80gb-sxm", "gpu.model!=h100", false),
        ("h100-80gb-sxm", "gpu.model notin (l4,a100)", true),
        ("h100-80gb-sxm.1g.10gb", "gpu.model=h100", false),
        ("h100-80gb-sxm.1g.10gb", "gpu.model=h100-80gb-sxm", false),
        ("h100-80gb-sxm.1g.10gb", "gpu.model=h100.1g.10gb", true),
    ] {
        assert_eq!(!select(&sells(model), terms).is_empty(), holds, "{model}: {terms}");
    }
}

#[test]
fn the_replicas_of_a_time_slice_are_no_gpus() {
    for mode in [GpuMode::Timeslice { replicas: 10 }, GpuMode::Mps { memory_mib: 1, percent: 1 }] {
        let slices = GpuPool { mode, ..gpu("h100", 40, 80) };
        let broker = broker([with_pool(ad("turin"), "gpus", "cpu=8", "free", Some(slices))]);
        assert!(select(&broker, "gpu.model").is_empty());
        let mut demand = selecting("");
        assert!(broker.browse(NOW, &demand, false).offers[1].free.gpus.is_empty());
        demand.quantity.gpus.insert("h100".parse().unwrap(), 1);
        assert_eq!(broker.browse(NOW, &demand, false).suiting, 0);
    }
}

#[test]
fn shared_devices_are_for_those_who_name_them() {
    let shared = |model: &str, mode| GpuPool { mode, ..gpu(model, 40, 16) };
    let turns = shared("t4.ts4", GpuMode::Timeslice { replicas: 4 });
    let shares = shared("t4.mps4", GpuMode::Mps { memory_mib: 4_096, percent: 25 });
    let ad = with_pool(ad("turin"), "mps", "cpu=8", "free", Some(shares));
    let ad = with_pool(ad, "turns", "cpu=8", "free", Some(turns));
    let broker = broker([with_pool(ad, "whole", "cpu=8", "free", Some(gpu("t4", 2, 16)))]);
    for (terms, pools) in [
        ("gpu.model=t4", &["whole"][..]),
        ("gpu.model=t4.ts4", &["turns"]),
        ("gpu.mode=timeslice", &["turns"]),
        ("gpu.mode in (mps,timeslice)", &["mps", "turns"]),
        ("gpu.mode in (exclusive,mps), gpu.mem>=8Gi", &["mps", "whole"]),
        ("gpu.mode!=mig", &["whole"]),
        ("gpu.vendor=nvidia", &["whole"]),
        ("gpu.mem>=8Gi, gpu.model", &["whole"]),
        ("gpu.model notin (h100)", &["whole"]),
        // They say hardware, whatever they are.
        ("gpu.isolation=hardware", &["whole"]),
        ("gpu.mode=timeslice, gpu.isolation=hardware", &[]),
        ("gpu.isolation=none", &["turns"]),
        ("gpu.isolation in (none,limit)", &["mps", "turns"]),
        ("gpu.isolation!=hardware", &[]),
    ] {
        let pools: Vec<_> = pools.iter().map(|pool| format!("turin/{pool}")).collect();
        assert_eq!(select(&broker, terms), pools, "{terms}");
    }
    let buys = |model: &str, selector: &str| {
        let mut demand = selecting(selector);
        demand.quantity.gpus.insert(model.parse().unwrap(), 1);
        found(&broker.browse(NOW, &demand, false))
    };
    assert_eq!(buys("t4", ""), ["turin/whole"]);
    assert_eq!(buys("t4.ts4", ""), ["turin/turns"]);
    assert_eq!(buys("t4.ts4", "gpu.vendor=nvidia"), ["turin/turns"]);
    assert_eq!(buys("t4.ts4", "gpu.isolation=hardware"), Vec::<String>::new());
}

#[test]
fn memory_and_interconnect_are_of_the_same_gpus() {
    let joined = GpuPool { interconnect: Some("nvlink".to_owned()), ..gpu("h100-80gb-sxm", 8, 80) };
    let ad = with_pool(ad("turin"), "pcie", "cpu=8", "free", Some(gpu("h100-94gb-nvl", 8, 94)));
    let broker = broker([with_pool(ad, "sxm", "cpu=8", "free", Some(joined))]);
    for (terms, pools) in [
        ("gpu.mem>=80Gi", &["turin/pcie", "turin/sxm"][..]),
        ("gpu.mem>=80Gi, gpu.interconnect=nvlink", &["turin/sxm"]),
        ("gpu.mem>80Gi, gpu.interconnect=nvlink", &[]),
        ("gpu.interconnect!=nvlink", &[]),
        ("gpu.interconnect", &["turin/sxm"]),
    ] {
        assert_eq!(select(&broker, terms), pools, "{terms}");
    }
}

#[test]
fn who_offers_all_of_the_internet_offers_what_is_narrower_too() {
    let mut open = ad("open");
    body(&mut open).egress = Some(EgressOffer::Internet);
    let mut named = ad("named");
    let range = Outside::of(["203.0.114.0/24".parse().unwrap()]).unwrap();
    body(&mut named).egress = Some(EgressOffer::Named(range));
    let broker = broker([open, named, ad("silent")]);
    for (selector, expected) in [
        ("egress=internet", 1),
        ("egress=named", 2),
        ("egress in (named,internet)", 2),
        ("egress=none", 3),
    ] {
        assert_eq!(select(&broker, selector).len(), expected, "{selector}");
    }
}

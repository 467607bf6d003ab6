//! What `browse` asks and shows, and `order --dry-run`.

use std::sync::Arc;

use mercato_broker::Market;
use mercato_protocol::id::PublicKey;
use serde_json::json;

use super::{Script, TURIN, fits, mercato, script, told};
use crate::admin::{Class, Request};

/// One that suits and two that do not, each for its own reason.
pub(super) fn market() -> Market {
    let offer = json!({
        "provider": TURIN, "name": "turin", "key": PublicKey([2; 32]), "standing": "trusted",
        "jurisdiction": "IT", "region": "x", "carbonGPerKwh": 180, "rttUs": 12_345,
        "reputation": 910, "score": 750,
        "pool": { "id": "amd64-h100", "goods": "compute",
            "platform": { "arch": "amd64", "os": "linux" }, "total": {}, "largestPod": {},
            "gpus": [gpus()] },
        "free": { "cpuMillis": 16_000, "memoryBytes": 68_719_476_736_u64, "pods": 110,
            "gpus": { "h100": 4 } },
        "quantity": { "gpus": { "h100": 1 } },
        "price": "free", "total": null, "networkIsolation": "required",
        "terms": { "classes": ["reserved"], "minTermS": 60, "maxTermS": 86_400,
            "reclaimNoticeS": 3_600, "meteringIntervalS": 300 },
        "expiresMs": 4_102_444_800_000_u64,
    });
    let miss = |by: &str, alone: usize, lacks| {
        json!({ "by": by, "offers": 2, "alone": alone, "nearest": {
            "provider": TURIN, "name": "lyon", "pool": "amd64-a100", "lacks": lacks } })
    };
    let term = |attribute: &str, said: Option<&str>| json!({ "term": { "attribute": attribute, "said": said } });
    let memory = term("gpu.mem", Some("40Gi"));
    let market = json!({ "seen": 3, "suiting": 1, "offers": [offer], "excluded": [
        miss("gpu.mem>=80Gi", 1, vec![memory.clone()]),
        miss("rtt<=30ms", 0, vec![term("rtt", None), memory]),
    ] });
    serde_json::from_value(market).unwrap()
}

fn gpus() -> serde_json::Value {
    json!({ "model": "h100", "vendor": "nvidia", "pciId": "x", "memoryMib": 81_559, "count": 4,
        "mostPerNode": 4, "driver": "x", "cuda": "x", "computeCapability": "x",
        "interconnect": "x", "source": "labels", "mode": { "mig": { "profile": "x" } },
        "isolation": "none", "sharedCounter": "x", "cpuMillisPerUnit": 0,
        "memoryBytesPerUnit": 0 })
}

#[test]
fn what_suits_is_a_table_and_what_does_not_has_its_reason() {
    let api = Arc::new(Script { market: market(), ..Script::default() });
    let text = mercato(&api, "browse gpu.mem>=80Gi,rtt<=30ms --sort rtt").unwrap();
    assert_eq!(
        text,
        "PROVIDER  POOL        CPU  MEMORY  PODS  GPUS    CLASS     TRUST    RTT   PRICE\n\
         turin     amd64-h100  16   64Gi    110   h100=4  reserved  trusted  12ms  free\n\n\
         2 of 3 offers do not match; to see why: --explain\n"
    );
    fits(&text);
    let Some(Request::Browse { demand, explain: false }) = told(&api) else { panic!() };
    assert_eq!(demand.selector.terms().len(), 2);
    assert_eq!((demand.sort, demand.term_s), (mercato_broker::Sort::Rtt, 0));
    let text = mercato(&api, "browse gpu.mem>=80Gi,rtt<=30ms --for 4h --explain").unwrap();
    assert!(
        text.ends_with(
            "\nWhy 2 of 3 offers do not match:\n  \
             gpu.mem>=80Gi: excludes 2, 1 by itself\n    \
             nearest: lyon amd64-a100: gpu.mem is 40Gi\n  \
             rtt<=30ms: excludes 2\n    \
             nearest: lyon amd64-a100: rtt is not said; gpu.mem is 40Gi\n"
        ),
        "{text}"
    );
    fits(&text);
    let Some(Request::Browse { demand, explain: true }) = told(&api) else { panic!() };
    assert_eq!((demand.term_s, demand.quantity.pods), (14_400, 20));
    let wide = mercato(&api, "browse -o wide").unwrap();
    assert!(
        wide.contains(
            "  IT   x       none    12ms  180g    91%         750    h100 81559Mi part x, none  free\n"
        ),
        "{wide}"
    );
    let page = mercato(&api, "offer show 4f4f").unwrap();
    assert!(page.contains("h100 81559Mi part x, none; 4 a node, by x\n"), "{page}");
    let name = mercato(&api, "browse -o name").unwrap();
    assert_eq!(name, format!("{TURIN}\n"));
    let csv = mercato(&api, "browse --for 4h -o csv").unwrap();
    let lines: Vec<&str> = csv.lines().collect();
    assert!(
        lines[0].starts_with("PROVIDER,POOL,CPU,MEMORY,PODS,STORAGE,GPUS,CLASS,TRUST,LAW,"),
        "{csv}"
    );
    assert!(
        lines[1].starts_with("turin,amd64-h100,16,64Gi,110,-,h100=4,reserved,trusted,IT,"),
        "{csv}"
    );
    assert_eq!(lines.len(), 2);
    let all: Market = serde_json::from_str(&mercato(&api, "browse -o json").unwrap()).unwrap();
    assert_eq!(all, market());
}

#[test]
fn nothing_that_suits_is_said_with_the_way_to_the_reasons() {
    let nobody = mercato(&script(&[]), "browse").unwrap_err();
    assert_eq!(
        (nobody.class, nobody.what.as_str()),
        (Class::NoMatch, "no cluster offers anything now")
    );
    let none = Market { seen: 2, suiting: 0, offers: Vec::new(), ..market() };
    let api = Arc::new(Script { market: none, ..Script::default() });
    let problem = mercato(&api, "browse gpu.model=b200").unwrap_err();
    assert_eq!(problem.class, Class::NoMatch);
    assert!(problem.to_string().ends_with("add --explain"), "{problem}");
    for how in ["browse --explain", "order --dry-run"] {
        let line = format!("{how} gpu.model=b200 --cpu 1 --memory 1Gi --for 1h");
        let none = mercato(&api, &line).unwrap_err();
        assert_eq!((none.class, &*none.what), (Class::NoMatch, "2 offers, and none matches"));
    }
    let Some(Request::Browse { demand, explain: true }) = told(&api) else { panic!() };
    assert_eq!(demand.selector.terms()[0].to_string(), "gpu.model=b200");
}

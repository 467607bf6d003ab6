//! How long a search of the order book takes, while advertisements stream in.
//!
//! Criterion has the medians. Since an owner waits for the slowest search and not for the
//! middle one, the 50th and 99th percentile of single searches are printed as well: as time
//! on the clock, and as processor time, which says more on a machine that is shared.
#![allow(clippy::unwrap_used, reason = "a bench may")]
#![allow(clippy::disallowed_methods, reason = "a bench reads the clock")]
#![allow(missing_docs, reason = "criterion makes the functions")]

#[allow(dead_code, reason = "the tests use more of it")]
#[path = "../tests/market/fair.rs"]
mod fair;

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use mercato_broker::syntax::FromText as _;
use mercato_broker::{Broker, Demand, Input, Selector, Sort};
use mercato_protocol::ad::{Ad, Assurance, Attribute};
use mercato_protocol::resources::Resources;

use fair::{NOW, gpu, with_pool};

/// As many publishers as gossip keeps.
const PROVIDERS: usize = 20_000;
/// Advertisements that come between two searches: 20,000 renewals in five minutes are 67
/// a second, and nobody searches ten times a second.
const ADS: usize = 8;
/// Single searches behind the percentiles.
const SEARCHES: usize = 300;

/// What people ask for: something rare, something common, and everything there is.
const DEMANDS: [(&str, &str, &str); 3] = [
    (
        "rare",
        "gpu.model in (h100,h200), gpu.mem>=80Gi, gpu.count>=4, gpu.isolation=hardware, \
         jurisdiction in (IT,FR), cert.iso27001@third-party, carbon<=300, class=reserved, \
         reclaim>=1h, price.gpu.EUR<=2.50/h",
        "cpu=8,memory=64Gi,pods=20,gpu.h100=4",
    ),
    ("common", "jurisdiction in (IT,FR,DE,ES), price.cpu.EUR<=0.05/h", "cpu=4,memory=16Gi,pods=20"),
    ("all", "", "cpu=1,memory=1Gi,pods=1"),
];

/// The nth provider, with so many pools; each figure has a period of its own.
fn publisher(n: usize, pools: usize) -> Ad {
    const COUNTRIES: [&str; 7] = ["IT", "FR", "DE", "ES", "NO", "PL", "PT"];
    const MODELS: [(&str, u64); 5] =
        [("h100", 80), ("h200", 141), ("a100", 40), ("l4", 24), ("l40s", 48)];
    let mut ad = fair::ad(&format!("provider-{n}"));
    fair::header(&mut ad).rows.clear();
    let body = fair::body(&mut ad);
    body.pools.clear();
    body.jurisdiction = Some(COUNTRIES[n % COUNTRIES.len()].to_owned());
    body.carbon_g_per_kwh = Some(u32::try_from(20 + n * 37 % 700).unwrap());
    let assurance =
        if n.is_multiple_of(3) { Assurance::ThirdParty } else { Assurance::SelfAsserted };
    let name = "cert.iso27001".parse().unwrap();
    body.attributes = vec![Attribute { name, value: "true".to_owned(), assurance }];
    let price = format!(
        "cpu=0.0{} EUR/h, memory=0.00{} EUR/h, gpu.h100={}.{} EUR/h",
        1 + n % 9,
        1 + n % 9,
        1 + n % 3,
        n % 10
    );
    for pool in 0..pools {
        let kind = (n + pool) % 8;
        let gpus =
            MODELS.get(kind).map(|(model, gib)| gpu(model, (n * 7 + pool) as u64 % 16, *gib));
        let free =
            format!("cpu={},memory={}Gi,pods=110", 1 + (n * 13 + pool) % 64, 4 + (n + pool) % 256);
        ad = with_pool(ad, &format!("p{pool:02}"), &free, &price, gpus);
    }
    ad
}

fn demand(selector: &str, quantity: &str) -> Demand {
    Demand {
        selector: Selector::from_text(selector).unwrap(),
        quantity: Resources::from_text(quantity).unwrap(),
        term_s: 3_600,
        sort: Sort::Score,
        ..Demand::default()
    }
}

/// Renewals of what the book holds, for ever.
struct Stream {
    ads: Vec<Ad>,
    next: usize,
}

impl Stream {
    fn feed(&mut self, broker: &mut Broker) {
        for _ in 0..ADS {
            let count = self.ads.len();
            let ad = &mut self.ads[self.next % count];
            fair::header(ad).seq += 1;
            broker.handle(NOW, Input::Ad(Box::new(ad.clone())));
            self.next += 1;
        }
    }
}

fn percentiles(broker: &mut Broker, stream: &mut Stream, demand: &Demand) -> String {
    let (mut clock, mut processor) = (Vec::new(), Vec::new());
    for _ in 0..SEARCHES {
        stream.feed(broker);
        let (start, start_on) = (Instant::now(), on_processor());
        black_box(broker.browse(NOW, demand, false));
        clock.push(start.elapsed());
        processor.push(on_processor() - start_on);
    }
    let said = |name, mut took: Vec<Duration>| {
        took.sort();
        let [p50, p99] = [50, 99].map(|percent| took[SEARCHES * percent / 100]);
        format!("{name} p50 {p50:.1?} p99 {p99:.1?}")
    };
    format!("{}, {}", said("clock", clock), said("processor", processor))
}

/// Time that this thread was on a processor, as Linux counts it.
fn on_processor() -> Duration {
    let said = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ns = said.split(' ').next().and_then(|ns| ns.parse().ok());
    Duration::from_nanos(ns.unwrap_or_default())
}

fn search(c: &mut Criterion) {
    for pools in [5, 50] {
        let offers = PROVIDERS * pools;
        let mut broker = fair::broker((0..PROVIDERS).map(|n| publisher(n, pools)));
        let ads = (0..PROVIDERS).step_by(97).map(|n| publisher(n, pools)).collect();
        let mut stream = Stream { ads, next: 0 };
        let mut group = c.benchmark_group("search");
        group.sample_size(20);
        for (name, selector, quantity) in DEMANDS {
            let demand = demand(selector, quantity);
            let suiting = broker.browse(NOW, &demand, false).suiting;
            let took = percentiles(&mut broker, &mut stream, &demand);
            println!("search/{name}/{offers}: {suiting} suit; {took}");
            group.bench_function(BenchmarkId::new(name, offers), |bencher| {
                bencher.iter(|| black_box(broker.browse(NOW, &demand, false)));
            });
        }
        group.finish();
        let mut group = c.benchmark_group("insert");
        group.bench_function(BenchmarkId::new("renewal", offers), |bencher| {
            let mut ad = stream.ads[1].clone();
            fair::header(&mut ad).seq += 1 << 20;
            bencher.iter_batched(
                || {
                    fair::header(&mut ad).seq += 1;
                    Input::Ad(Box::new(ad.clone()))
                },
                |input| broker.handle(NOW, input),
                BatchSize::SmallInput,
            );
        });
        group.finish();
    }
}

criterion_group!(benches, search);
criterion_main!(benches);

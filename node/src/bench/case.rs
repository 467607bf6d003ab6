//! What is measured, and what came of it.

use std::time::Duration;

use anyhow::{Context as _, Error, Result};
use serde::Serialize;

/// Leases of our tunnel, and streams of the case with many.
pub(super) const MANY: u8 = 100;

/// One load, or one thing that is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Case {
    /// One TCP stream, as fast as it goes.
    OneStream,
    /// Four TCP streams at once.
    FourStreams,
    /// Many at once, of one lease or of as many.
    ManyStreams,
    /// UDP packets of 64 bytes.
    SmallPackets,
    /// One TCP stream beside 100,000 initiations a second: to the gateway, or to nobody.
    FloodedStream,
    /// From a question to its answer.
    RoundTrip,
    /// What a peer costs that says nothing.
    IdlePeer,
}

/// What one round of a case gave.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// In the unit of its case.
    pub(super) value: u64,
    /// For 10^9 bytes, where bytes are what is measured.
    pub(super) cpu_ms: Option<u64>,
}

/// What was measured, in the median of all rounds.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Figures {
    /// How packets went over the cable.
    pub(crate) wire: &'static str,
    /// The name of the load.
    pub(crate) case: &'static str,
    /// The bare cable, our tunnel, or one of those beside it.
    pub(crate) path: String,
    /// The unit of the next three.
    pub(crate) unit: &'static str,
    /// The median of all rounds.
    pub(crate) median: u64,
    /// The least of all rounds.
    pub(crate) least: u64,
    /// The most of all rounds.
    pub(crate) most: u64,
    /// Processor time for 10^9 bytes, of load and tunnel together, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cpu_ms_per_gigabyte: Option<u64>,
    /// How many times as good our tunnel was, in hundredths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ours_percent: Option<u64>,
}

impl Case {
    pub(crate) const ALL: [Self; 7] = [
        Self::OneStream,
        Self::FourStreams,
        Self::ManyStreams,
        Self::SmallPackets,
        Self::FloodedStream,
        Self::RoundTrip,
        Self::IdlePeer,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::OneStream => "one-stream",
            Self::FourStreams => "four-streams",
            Self::ManyStreams => "100-streams",
            Self::SmallPackets => "64-byte-packets",
            Self::FloodedStream => "flooded-stream",
            Self::RoundTrip => "round-trip",
            Self::IdlePeer => "idle-peer",
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Self::OneStream | Self::FourStreams | Self::ManyStreams | Self::FloodedStream => {
                "bit/s"
            }
            Self::SmallPackets => "packets/s",
            Self::RoundTrip => "ns",
            Self::IdlePeer => "bytes",
        }
    }

    fn is_less_better(self) -> bool {
        matches!(self, Self::RoundTrip | Self::IdlePeer)
    }
}

impl std::str::FromStr for Case {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let named = Self::ALL.into_iter().find(|case| case.name() == text);
        named.with_context(|| {
            format!("{text:?} is none of {}", Self::ALL.map(Self::name).join(", "))
        })
    }
}

impl Sample {
    /// So many bytes in this time, for so much processor time.
    pub(super) fn of_bytes(bytes: u64, took: Duration, cpu: Duration) -> Self {
        let per = cpu.as_millis() * 1_000_000_000 / u128::from(bytes.max(1));
        let cpu_ms = Some(u64::try_from(per).unwrap_or(u64::MAX));
        Self { value: per_second(u128::from(bytes) * 8, took), cpu_ms }
    }

    /// So many packets in this time.
    pub(super) fn of_packets(packets: u64, took: Duration) -> Self {
        Self { value: per_second(packets.into(), took), cpu_ms: None }
    }

    pub(super) fn plain(value: u64) -> Self {
        Self { value, cpu_ms: None }
    }
}

fn per_second(count: u128, took: Duration) -> u64 {
    u64::try_from(count * 1_000_000_000 / took.as_nanos().max(1)).unwrap_or(u64::MAX)
}

impl Figures {
    /// The figures of one path; `ours` are the samples of our own tunnel under the same load.
    pub(super) fn of(
        wire: &'static str,
        case: Case,
        path: String,
        samples: &[Sample],
        ours: Option<&[Sample]>,
    ) -> Self {
        let sorted = |samples: &[Sample]| {
            let mut values: Vec<u64> = samples.iter().map(|sample| sample.value).collect();
            values.sort_unstable();
            values
        };
        let values = sorted(samples);
        let mut cpu: Vec<u64> = samples.iter().filter_map(|sample| sample.cpu_ms).collect();
        cpu.sort_unstable();
        let median = values[values.len() / 2];
        let ratio = |ours: &[Sample]| {
            let values = sorted(ours);
            let ours = values[values.len() / 2];
            let (good, other) = if case.is_less_better() { (median, ours) } else { (ours, median) };
            good * 100 / other.max(1)
        };
        Self {
            wire,
            case: case.name(),
            path,
            unit: case.unit(),
            median,
            least: values[0],
            most: values[values.len() - 1],
            cpu_ms_per_gigabyte: cpu.get(cpu.len() / 2).copied(),
            ours_percent: ours.map(ratio),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_called_as_it_is_read() {
        for case in Case::ALL {
            assert_eq!(case.name().parse::<Case>().unwrap(), case);
        }
        let error = "two-streams".parse::<Case>().unwrap_err().to_string();
        assert!(error.contains("one-stream, four-streams"), "{error}");
    }

    #[test]
    fn a_ratio_says_how_many_times_as_good_ours_is() {
        let samples = |values: [u64; 3]| values.map(Sample::plain);
        let of = |case, theirs, ours: [u64; 3]| {
            let ours = samples(ours);
            Figures::of("gro", case, String::new(), &samples(theirs), Some(&ours))
        };
        let rate = of(Case::OneStream, [3, 1, 2], [9, 8, 7]);
        assert_eq!((rate.median, rate.least, rate.most), (2, 1, 3));
        assert_eq!(rate.ours_percent, Some(400));
        assert_eq!(of(Case::RoundTrip, [30, 10, 20], [10, 10, 10]).ours_percent, Some(200));
    }
}

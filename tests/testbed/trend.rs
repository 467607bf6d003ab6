//! Whether a figure grows with time, in spite of its noise.

/// Windows that samples are gathered in: enough for a line, each with enough samples for
/// a median.
const WINDOWS: usize = 24;

/// By how many hundredths of itself a figure grows over the whole time of its samples, which
/// are seconds and figures in order of time: the median of the slopes between all pairs of
/// windows (Theil and Sen), each window as the median of its samples. A step of an allocator
/// or a spike is not taken for a trend.
///
/// # Panics
/// With less than two samples.
#[must_use]
pub fn growth(samples: &[(f64, f64)]) -> f64 {
    let windows: Vec<(f64, f64)> =
        samples.chunks(samples.len().div_ceil(WINDOWS)).map(middle).collect();
    let pairs = windows.iter().enumerate().flat_map(|(n, &(at, is))| {
        windows[n + 1..].iter().map(move |&(later, then)| (then - is) / (later - at))
    });
    let time = samples[samples.len() - 1].0 - samples[0].0;
    100.0 * median(pairs.collect()) * time / median(samples.iter().map(|(_, is)| *is).collect())
}

fn middle(window: &[(f64, f64)]) -> (f64, f64) {
    let all = |of: fn(&(f64, f64)) -> f64| median(window.iter().map(of).collect());
    (all(|sample| sample.0), all(|sample| sample.1))
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many seconds of something around 100.
    fn samples(is: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
        (0..480).map(|second| (f64::from(second), 100.0 + is(f64::from(second)))).collect()
    }

    #[test]
    fn what_grows_steadily_is_seen_through_noise() {
        let noise = |at: f64| 3.0 * (at * 7.0).sin();
        let growth = |each_s: f64| growth(&samples(|at| each_s * at + noise(at)));
        assert!(growth(0.0).abs() < 0.2, "{}", growth(0.0));
        assert!((growth(0.01) - 4.7).abs() < 0.5, "{}", growth(0.01));
        assert!((growth(-0.01) + 4.9).abs() < 0.5, "{}", growth(-0.01));
    }

    #[test]
    fn spikes_and_an_early_step_are_no_trend() {
        let spiky = |at: f64| if at as u32 % 60 < 12 { 40.0 } else { 0.0 };
        assert!(growth(&samples(spiky)).abs() < 0.1);
        let step = |at: f64| if at < 100.0 { 0.0 } else { 8.0 };
        assert!(growth(&samples(step)).abs() < 0.1);
    }
}

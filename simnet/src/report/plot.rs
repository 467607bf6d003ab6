//! Plots as inline SVG: lines over time, bars, areas on each other, ranges, a map. Colours
//! come of the page's style sheet.

use std::fmt::Write as _;

/// Of every plot with axes; a narrow screen shows it at about this width.
const WIDTH: f64 = 620.0;
const HEIGHT: f64 = 270.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 34.0;

/// One line or area of a plot.
pub(super) struct Series {
    /// As the key calls it.
    pub(super) name: String,
    /// The number of its colour in the style sheet, 1 to 6.
    pub(super) colour: usize,
    pub(super) dashed: bool,
    pub(super) points: Vec<(f64, f64)>,
}

impl Series {
    pub(super) fn new(name: &str, colour: usize, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.to_owned(), colour, dashed: false, points }
    }
}

/// What a plot's axes say.
pub(super) struct Axes<'a> {
    pub(super) x: &'a str,
    pub(super) y: &'a str,
    /// Beginning and end of what is marked behind the plot.
    pub(super) bands: &'a [(f64, f64)],
    /// At least so far the upper end of the y axis is.
    pub(super) least_top: f64,
}

struct Frame {
    right: f64,
    top: f64,
}

impl Frame {
    fn x(&self, x: f64) -> f64 {
        LEFT + x / self.right * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, y: f64) -> f64 {
        HEIGHT - BOTTOM - y / self.top * (HEIGHT - TOP - BOTTOM)
    }
}

/// A round number that is at least this.
fn round_up(value: f64) -> f64 {
    let mut step = 1e-6;
    while step < value {
        for factor in [1.0, 2.0, 2.5, 5.0] {
            if step * factor >= value {
                return step * factor;
            }
        }
        step *= 10.0;
    }
    step
}

/// As short as it can be said.
pub(super) fn short(value: f64) -> String {
    let plain = |value: f64| {
        let text = format!("{value:.2}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    match value {
        _ if value >= 1e9 => format!("{}G", plain(value / 1e9)),
        _ if value >= 1e6 => format!("{}M", plain(value / 1e6)),
        _ if value >= 1e4 => format!("{}k", plain(value / 1e3)),
        _ => plain(value),
    }
}

fn open(axes: &Axes<'_>, right: f64, top: f64) -> (String, Frame) {
    let (right, top) = (right.max(1e-6), round_up(top.max(axes.least_top).max(1e-6)));
    let frame = Frame { right, top };
    let mut svg = format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">");
    for (from, to) in axes.bands {
        let (x, width) = (frame.x(*from), frame.x(*to) - frame.x(*from));
        let height = HEIGHT - TOP - BOTTOM;
        let _ = write!(
            svg,
            "<rect class=\"band\" x=\"{x:.1}\" y=\"{TOP}\" width=\"{width:.1}\" height=\"{height}\"/>"
        );
    }
    for nth in 0..=4 {
        let value = top * f64::from(nth) / 4.0;
        let y = frame.y(value);
        let (end, label_x, label_y) = (WIDTH - RIGHT, LEFT - 7.0, y + 4.5);
        let _ = write!(
            svg,
            "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{end}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text x=\"{label_x}\" y=\"{label_y:.1}\" text-anchor=\"end\">{}</text>",
            short(value)
        );
    }
    let step = round_up(right / 7.0);
    let y = HEIGHT - BOTTOM + 18.0;
    // The last one makes room for the unit.
    let ticks = (0..).map(|nth| step * f64::from(nth)).take_while(|value| *value < right * 0.9);
    for value in ticks {
        let x = frame.x(value);
        let _ = write!(
            svg,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{}</text>",
            short(value)
        );
    }
    let x = WIDTH - RIGHT;
    let _ = write!(svg, "<text x=\"{x}\" y=\"{y:.1}\" text-anchor=\"end\">{}</text>", axes.x);
    (svg, frame)
}

fn close(mut svg: String, series: &[Series], axes: &Axes<'_>) -> String {
    svg += "</svg>";
    let mut key = format!("<div class=\"key\"><span>{}</span>", axes.y);
    for one in series {
        let _ = write!(key, "<span><i class=\"k{}\"></i>{}</span>", one.colour, one.name);
    }
    if !axes.bands.is_empty() {
        key += "<span><i class=\"kband\"></i>incident</span>";
    }
    key + "</div>" + &svg
}

/// Lines over one x axis.
pub(super) fn lines(axes: &Axes<'_>, series: &[Series]) -> String {
    let all = || series.iter().flat_map(|one| &one.points);
    let right = all().map(|(x, _)| *x).fold(0.0, f64::max);
    let top = all().map(|(_, y)| *y).fold(0.0, f64::max);
    let (mut svg, frame) = open(axes, right, top);
    for one in series {
        let mut path = String::new();
        for (nth, (x, y)) in one.points.iter().enumerate() {
            let head = if nth == 0 { 'M' } else { 'L' };
            let _ = write!(path, "{head}{:.1} {:.1}", frame.x(*x), frame.y(*y));
        }
        let dash = if one.dashed { " dash" } else { "" };
        let _ = write!(svg, "<path class=\"l s{}{dash}\" d=\"{path}\"/>", one.colour);
    }
    close(svg, series, axes)
}

/// Points over one x axis.
pub(super) fn dots(axes: &Axes<'_>, series: &[Series]) -> String {
    let all = || series.iter().flat_map(|one| &one.points);
    let right = all().map(|(x, _)| *x).fold(0.0, f64::max);
    let top = all().map(|(_, y)| *y).fold(0.0, f64::max);
    let (mut svg, frame) = open(axes, right, top);
    for one in series {
        for (x, y) in &one.points {
            let (x, y) = (frame.x(*x), frame.y(*y));
            let _ = write!(
                svg,
                "<circle class=\"dot f{}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.6\"/>",
                one.colour
            );
        }
    }
    close(svg, series, axes)
}

/// Areas on top of each other; all series have the same x values.
pub(super) fn areas(axes: &Axes<'_>, series: &[Series]) -> String {
    let n = series.first().map_or(0, |one| one.points.len());
    let mut base = vec![0.0; n];
    let mut shapes = Vec::new();
    for one in series {
        let upper: Vec<f64> = base.iter().zip(&one.points).map(|(base, (_, y))| base + y).collect();
        shapes.push((one, base, upper.clone()));
        base = upper;
    }
    let right = series.first().and_then(|one| one.points.last()).map_or(0.0, |(x, _)| *x);
    let (mut svg, frame) = open(axes, right, base.iter().copied().fold(0.0, f64::max));
    for (one, lower, upper) in shapes {
        let at =
            |nth: usize, y: f64| format!("{:.1} {:.1}", frame.x(one.points[nth].0), frame.y(y));
        let over = (0..n).map(|nth| at(nth, upper[nth]));
        let under = (0..n).rev().map(|nth| at(nth, lower[nth]));
        let path: Vec<String> = over.chain(under).collect();
        let _ = write!(svg, "<path class=\"f{}\" d=\"M{}Z\"/>", one.colour, path.join("L"));
    }
    close(svg, series, axes)
}

/// Bars with a label and a value each.
pub(super) fn bars(rows: &[(String, f64, String)], colour: usize) -> String {
    let most = rows.iter().map(|(_, value, _)| *value).fold(1e-6, f64::max);
    let height = rows.len().max(1) as f64 * 34.0 + 8.0;
    let mut svg = format!("<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">");
    for (nth, (label, value, text)) in rows.iter().enumerate() {
        let y = nth as f64 * 34.0 + 6.0;
        let (label_y, width) = (y + 17.0, value / most * 300.0);
        let text_x = 226.0 + width + 8.0;
        let _ = write!(
            svg,
            "<text class=\"on\" x=\"218\" y=\"{label_y}\" text-anchor=\"end\">{label}</text>\
             <rect class=\"f{colour}\" x=\"226\" y=\"{y}\" width=\"{width:.1}\" height=\"24\" rx=\"3\"/>\
             <text x=\"{text_x:.1}\" y=\"{label_y}\">{text}</text>"
        );
    }
    svg + "</svg>"
}

/// For each row the range between its first and its last value, with marks in between, on a
/// logarithmic axis from a hundredth of a second to an hour. Values in seconds.
pub(super) fn ranges(rows: &[(String, Vec<f64>)]) -> String {
    let x = |seconds: f64| {
        let share = (seconds.max(0.01).log10() + 2.0) / (3_600f64.log10() + 2.0);
        130.0 + share * (WIDTH - 130.0 - 24.0)
    };
    let height = rows.len() as f64 * 46.0 + 40.0;
    let mut svg = format!("<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">");
    let ticks = [
        (0.01, "10 ms"),
        (0.1, "0.1 s"),
        (1.0, "1 s"),
        (10.0, "10 s"),
        (60.0, "1 min"),
        (600.0, "10 min"),
    ];
    let end = height - 30.0;
    for (seconds, label) in ticks {
        let (x, y) = (x(seconds), height - 10.0);
        let _ = write!(
            svg,
            "<line class=\"axis\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"4\" y2=\"{end}\"/>\
             <text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{label}</text>"
        );
    }
    for (nth, (label, values)) in rows.iter().enumerate() {
        let y = nth as f64 * 46.0 + 26.0;
        let label_y = y + 5.0;
        let _ = write!(
            svg,
            "<text class=\"on\" x=\"118\" y=\"{label_y}\" text-anchor=\"end\">{label}</text>"
        );
        let (Some(first), Some(last)) = (values.first(), values.last()) else { continue };
        let (from, width) = (x(*first), (x(*last) - x(*first)).max(2.0));
        let top = y - 5.0;
        let _ = write!(
            svg,
            "<rect class=\"f1 pale\" x=\"{from:.1}\" y=\"{top}\" width=\"{width:.1}\" height=\"10\" rx=\"5\"/>"
        );
        for (value, radius) in values.iter().zip([7.0, 5.0, 4.0]) {
            let x = x(*value);
            let _ = write!(svg, "<circle class=\"f1\" cx=\"{x:.1}\" cy=\"{y}\" r=\"{radius}\"/>");
        }
    }
    svg + "</svg>"
}

/// A cluster on a map.
pub(super) struct Spot {
    pub(super) name: String,
    /// East and north, in any unit.
    pub(super) at: (f64, f64),
    pub(super) size: f64,
    /// As a class: `f1`, `fbad`.
    pub(super) class: &'static str,
    pub(super) named: bool,
}

/// Clusters where they stand, with links of a weight between some.
pub(super) fn map(spots: &[Spot], links: &[(usize, usize, f64)]) -> String {
    let range = |of: &dyn Fn(&Spot) -> f64| {
        let values = spots.iter().map(of);
        let low = values.clone().fold(f64::MAX, f64::min);
        (low, values.fold(f64::MIN, f64::max))
    };
    let ((west, east), (south, north)) = (range(&|spot| spot.at.0), range(&|spot| spot.at.1));
    let scale = (560.0 / (east - west).max(1e-6)).min(620.0 / (north - south).max(1e-6));
    let (width, height) = ((east - west) * scale + 140.0, (north - south) * scale + 60.0);
    let place =
        |spot: &Spot| (70.0 + (spot.at.0 - west) * scale, 30.0 + (north - spot.at.1) * scale);
    let mut svg = format!("<svg viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\">");
    let most = links.iter().map(|(_, _, weight)| *weight).fold(1.0, f64::max);
    for (a, b, weight) in links {
        let ((x1, y1), (x2, y2)) = (place(&spots[*a]), place(&spots[*b]));
        let (bent_x, bent_y) =
            ((x1 + x2) / 2.0 + (y2 - y1) * 0.12, (y1 + y2) / 2.0 - (x2 - x1) * 0.12);
        let share = weight / most;
        let (stroke, opacity) = (0.6 + 3.4 * share, 0.12 + 0.6 * share);
        let _ = write!(
            svg,
            "<path class=\"l s1\" style=\"stroke-width:{stroke:.2};opacity:{opacity:.2}\" \
             d=\"M{x1:.1} {y1:.1}Q{bent_x:.1} {bent_y:.1} {x2:.1} {y2:.1}\"/>"
        );
    }
    for spot in spots {
        let ((x, y), size) = (place(spot), spot.size);
        let _ = write!(
            svg,
            "<circle class=\"{}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{size:.1}\"><title>{}</title></circle>",
            spot.class, spot.name
        );
    }
    for spot in spots.iter().filter(|spot| spot.named) {
        let (x, y) = place(spot);
        let (x, y) = (x + spot.size + 4.0, y + 4.5);
        let _ = write!(svg, "<text class=\"on\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", spot.name);
    }
    svg + "</svg>"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_numbers() {
        for (value, end) in
            [(0.7, 1.0), (1.1, 2.0), (23.0, 25.0), (99.0, 100.0), (4_100.0, 5_000.0)]
        {
            assert!((round_up(value) - end).abs() < end * 1e-6, "{value}: {}", round_up(value));
        }
        assert_eq!([short(0.25), short(1_500.0), short(15_000.0)], ["0.25", "1500", "15k"]);
    }
}

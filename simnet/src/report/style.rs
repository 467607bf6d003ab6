//! How the page looks, in light and in dark, on wide and on narrow screens.

/// The style sheet of the report's page.
pub(super) const CSS: &str = concat!(
    // The same colours as in the page of `mercato page`.
    include_str!("../../../node/src/page/assets/colours.css"),
    r#"
* { box-sizing: border-box; }
body { margin: 0; background: var(--bg); color: var(--ink);
  font: 16px/1.5 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
main { max-width: 1320px; margin: 0 auto; padding: 2rem 1.25rem 3rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .25rem; letter-spacing: -.01em; }
h2 { font-size: 1.08rem; margin: 0; }
p { margin: .4rem 0; max-width: 76ch; }
.soft { color: var(--soft); font-size: .9rem; }
.lead { font-size: 1.1rem; margin: 1rem 0 1.25rem; max-width: 100ch; }
header p { max-width: 120ch; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(175px, 1fr)); gap: .75rem; margin-bottom: 1rem; }
.tile, .card { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: .9rem 1rem; }
.tile b { display: block; font-size: 1.65rem; line-height: 1.2; font-variant-numeric: tabular-nums; }
.tile span { display: block; color: var(--soft); font-size: .86rem; }
.grid { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 1rem; }
.wide { grid-column: 1 / -1; }
.tall { grid-row: span 2; }
@media (max-width: 960px) { .grid { grid-template-columns: minmax(0, 1fr); } .tall { grid-row: auto; }
  main { padding: 1.25rem .9rem 2rem; } }
svg { display: block; width: 100%; height: auto; margin-top: .5rem; }
svg text { fill: var(--soft); font: 13px system-ui, "DejaVu Sans", sans-serif; }
svg text.on { fill: var(--ink); paint-order: stroke; stroke: var(--card); stroke-width: 3px; }
.axis { stroke: var(--line); stroke-width: 1; }
.band { fill: var(--band); opacity: .5; }
.l { fill: none; stroke-width: 2.25; stroke-linejoin: round; }
.dash { stroke-dasharray: 6 5; }
.s1 { stroke: var(--c1); } .s2 { stroke: var(--c2); } .s3 { stroke: var(--c3); }
.s4 { stroke: var(--c4); } .s5 { stroke: var(--c5); } .s6 { stroke: var(--c6); }
.f1 { fill: var(--c1); } .f2 { fill: var(--c2); } .f3 { fill: var(--c3); }
.f4 { fill: var(--c4); } .f5 { fill: var(--c5); } .f6 { fill: var(--c6); } .fbad { fill: var(--bad); }
.pale { opacity: .35; } .dot { opacity: .55; }
.key { display: flex; flex-wrap: wrap; gap: .2rem 1rem; font-size: .86rem; color: var(--soft); margin-top: .3rem; }
.key i { display: inline-block; width: .8rem; height: .8rem; border-radius: 3px; margin-right: .35rem; vertical-align: -.08rem; }
.k1 { background: var(--c1); } .k2 { background: var(--c2); } .k3 { background: var(--c3); }
.k4 { background: var(--c4); } .k5 { background: var(--c5); } .k6 { background: var(--c6); } .kbad { background: var(--bad); } .kband { background: var(--band); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; margin-top: .5rem; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .3rem .6rem; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { color: var(--soft); font-weight: 600; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
@media (max-width: 600px) { svg text { font-size: 18px; } td:first-child { white-space: normal; }
  th, td { padding: .3rem .35rem; } }
td.text, th.text { text-align: left; white-space: normal; }
tr:last-child td { border-bottom: 0; }
.good { color: var(--c3); font-weight: 600; } .bad { color: var(--bad); font-weight: 600; }
code { font: .88rem ui-monospace, "DejaVu Sans Mono", monospace; overflow-wrap: anywhere; }
"#
);

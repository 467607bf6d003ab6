//! docs/virtual-node.md says what becomes of each field of a pod, in the words of the rows by which
//! guests are made. `MERCATO_RENEW=1` writes the tables there instead.

use mercato_offload::forge::tables_of_fields;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/virtual-node.md");
const BEGIN: &str = "<!-- fields -->\n";
const END: &str = "<!-- /fields -->";
const RENEW: &str = "docs/virtual-node.md: to write it anew: MERCATO_RENEW=1 cargo test --workspace \
                     --test fields";

#[test]
fn the_page_has_the_tables_of_fields() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("a mark where the tables begin");
    let (written, after) = rest.split_once(END).expect("a mark where they end");
    let tables = tables_of_fields();
    if std::env::var_os("MERCATO_RENEW").is_some() {
        std::fs::write(PAGE, format!("{before}{BEGIN}{tables}{END}{after}")).unwrap();
        return;
    }
    assert!(written == tables, "{RENEW}\n{tables}");
}

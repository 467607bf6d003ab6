//! The GPUs that are known, as rows of `models.tsv`: what discovery calls a device, what it is
//! called on the market, and how much memory it has. What a node's labels mean is the vendors'.

use std::sync::LazyLock;

use mercato_protocol::text::GpuModel;

/// One kind of device that is known.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Row {
    vendor: &'static str,
    product: &'static str,
    /// What the whole device is called on the market.
    pub(super) model: GpuModel,
    /// Memory of the whole device, in mebibytes.
    pub(super) memory_mib: u64,
    /// How those of one node are joined, if by more than PCI.
    pub(super) link: Option<&'static str>,
    aliases: Vec<&'static str>,
}

/// The device of this vendor that discovery calls so.
pub(super) fn product(vendor: &str, name: &str) -> Option<&'static Row> {
    let name = normal(name);
    ROWS.iter().find(|row| row.vendor == vendor && row.product == name)
}

/// The device of this vendor that has such an alias, as in `pci:74a1`; of several the one that has
/// so much memory, in mebibytes.
pub(super) fn alias(vendor: &str, alias: &str, memory_mib: Option<u64>) -> Option<&'static Row> {
    let named = |row: &&Row| row.vendor == vendor && row.aliases.contains(&alias);
    let suits = |row: &&Row| memory_mib.is_none_or(|memory_mib| row.has(memory_mib));
    let mut all = ROWS.iter().filter(named).filter(suits);
    let first = all.next()?;
    all.next().is_none().then_some(first)
}

/// The device of this vendor that the market calls so.
pub(super) fn called(vendor: &str, model: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.vendor == vendor && row.model.as_str() == model)
}

/// Whether some device of this vendor is of such a family, as the market calls it.
pub(super) fn is_family(vendor: &str, family: &str) -> bool {
    let of = |row: &Row| mercato_protocol::gpu::family(&row.model) == family;
    ROWS.iter().any(|row| row.vendor == vendor && of(row))
}

/// What all of them are called on the market.
pub fn models() -> impl Iterator<Item = &'static GpuModel> {
    ROWS.iter().map(|row| &row.model)
}

impl Row {
    /// Whether a whole device may say that it has so much memory: what drivers keep for themselves
    /// is less than a tenth.
    pub(super) fn has(&self, memory_mib: u64) -> bool {
        memory_mib.abs_diff(self.memory_mib) <= self.memory_mib / 10
    }

    fn parse(line: &'static str) -> Option<Self> {
        let [vendor, product, model, memory, link, aliases] =
            line.split('\t').collect::<Vec<_>>().try_into().ok()?;
        let said = |text: &'static str| Some(text).filter(|text| *text != "-");
        Some(Self {
            vendor,
            product,
            model: model.parse().ok()?,
            memory_mib: memory.parse().ok()?,
            link: said(link),
            aliases: said(aliases).into_iter().flat_map(|all| all.split(',')).collect(),
        })
    }
}

static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| lines().filter_map(Row::parse).collect());

fn lines() -> impl Iterator<Item = &'static str> {
    include_str!("models.tsv").lines().filter(|line| !line.starts_with('#'))
}

/// A product as rows have it: upper-case, its words joined by dashes, without the vendor's name.
fn normal(product: &str) -> String {
    let upper = product.to_ascii_uppercase();
    let words = upper.split(['-', ' ', '_']).filter(|word| !word.is_empty());
    let words: Vec<_> =
        words.skip_while(|word| matches!(*word, "NVIDIA" | "AMD" | "INTEL")).collect();
    words.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_a_row_in_order_and_no_product_stands_twice() {
        let lines: Vec<_> = lines().collect();
        let rows: Vec<_> = lines.iter().map(|line| Row::parse(line).expect(line)).collect();
        let keys: Vec<_> = rows.iter().map(|row| (row.vendor, row.product)).collect();
        assert!(keys.is_sorted_by(|a, b| a < b), "sorted by vendor and product, each once");
        for row in &rows {
            assert_eq!(normal(row.product), row.product, "as it is looked up");
            assert!(row.memory_mib > 0 && !row.model.as_str().contains('.'), "{row:?}");
            // A profile as long as `1g.24gb.me.all` and two dots fit beside it.
            assert!(row.model.as_str().len() <= 17, "{row:?}");
        }
    }

    #[test]
    fn rows_of_one_model_are_one_device_and_an_alias_says_which() {
        for (i, row) in ROWS.iter().enumerate() {
            for other in &ROWS[i + 1..] {
                let one = row.model == other.model;
                assert!(!one || row.has(other.memory_mib) && row.link == other.link, "{row:?}");
                let both = row.aliases.iter().any(|alias| other.aliases.contains(alias));
                assert!(!both || !row.has(other.memory_mib), "{row:?} or {other:?}");
            }
            for name in &row.aliases {
                assert_eq!(alias(row.vendor, name, Some(row.memory_mib)), Some(row));
            }
        }
    }

    #[test]
    fn a_product_is_found_as_drivers_spell_it() {
        for (spelt, model) in [
            ("NVIDIA-A100-SXM4-40GB", Some("a100-40gb-sxm")),
            ("A100-SXM4-40GB", Some("a100-40gb-sxm")),
            ("NVIDIA H100 80GB HBM3", Some("h100-80gb-sxm")),
            ("NVIDIA-RTX-6000-Ada-Generation", Some("rtx6000ada")),
            ("Quadro-RTX-6000", Some("rtx6000turing")),
            ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", Some("rtxpro6000-srv")),
            ("NVIDIA-GeForce-RTX-4090-Laptop-GPU", Some("rtx4090laptop")),
            ("NVIDIA-A100", None),
            ("NVIDIA-DGX-Display", None),
        ] {
            let found = product("nvidia", spelt).map(|row| row.model.as_str());
            assert_eq!(found, model, "{spelt}");
        }
        assert_eq!(product("amd", "Tesla-T4"), None);
        assert_eq!(alias("nvidia", "ec2:a100", None), None, "of 40 GB, or of 80");
    }
}

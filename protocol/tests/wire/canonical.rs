//! Our reader of canonical CBOR beside another, dcbor: on items that are nearly canonical,
//! where two readers would differ first.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::corpus::decoders;

/// The head of an item, in its shortest form or a longer one.
fn head(major: u8, n: u64, longer: u8) -> Vec<u8> {
    let shortest = [(24, 0), (1 << 8, 1), (1 << 16, 2), (1 << 32, 3)];
    let least = shortest.iter().find(|(over, _)| n < *over).map_or(4, |(_, class)| *class);
    let bytes = n.to_be_bytes();
    match (least + longer).min(4) {
        0 => vec![major << 5 | bytes[7]],
        class => {
            let first = major << 5 | (23 + class);
            [&[first], &bytes[8 - (1 << (class - 1))..]].concat()
        }
    }
}

/// Hardly ever a longer head.
fn longer() -> impl Strategy<Value = u8> + Clone {
    prop_oneof![20 => Just(0u8), 1 => 1..4u8]
}

fn number() -> impl Strategy<Value = u64> + Clone {
    prop_oneof![0..30u64, 0..300u64, any::<u64>(), any::<u64>().prop_map(|n| n >> 31)]
}

/// An item, canonical or nearly so.
fn item() -> impl Strategy<Value = Vec<u8>> {
    let text = prop_oneof![
        "[a-z]{0,30}".prop_map(String::into_bytes),
        // What normalisation form C changes, and what it does not.
        Just("e\u{301}".as_bytes().to_vec()),
        Just("\u{e9}\u{1f980}".as_bytes().to_vec()),
        vec(any::<u8>(), 0..5),
    ];
    let float = prop_oneof![
        any::<f32>().prop_map(|n| [&[0xfa][..], &n.to_be_bytes()].concat()),
        any::<u16>().prop_map(|n| [&[0xf9][..], &n.to_be_bytes()].concat()),
    ];
    let leaf = prop_oneof![
        8 => (0..2u8, number(), longer()).prop_map(|(major, n, longer)| head(major, n, longer)),
        4 => (vec(any::<u8>(), 0..30), longer())
            .prop_map(|(bytes, longer)| [head(2, bytes.len() as u64, longer), bytes].concat()),
        4 => (text, longer())
            .prop_map(|(text, longer)| [head(3, text.len() as u64, longer), text].concat()),
        2 => (0xf4..0xf6u8).prop_map(|simple| vec![simple]),
        1 => any::<u8>().prop_map(|any| vec![any]),
        1 => float,
    ];
    leaf.prop_recursive(14, 60, 6, |inner| {
        let entries = vec((inner.clone(), inner.clone()), 0..5);
        let order = prop_oneof![9 => Just(true), 1 => Just(false)];
        prop_oneof![
            4 => (vec(inner.clone(), 0..6), longer()).prop_map(|(items, longer)| {
                [head(4, items.len() as u64, longer), items.concat()].concat()
            }),
            4 => (entries, order, longer()).prop_map(|(mut entries, order, longer)| {
                if order {
                    entries.sort();
                }
                let all = entries.iter().flat_map(|(key, value)| [&key[..], value].concat());
                [head(5, entries.len() as u64, longer), all.collect()].concat()
            }),
            1 => (number(), inner).prop_map(|(tag, of)| [head(6, tag, 0), of].concat()),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_096))]

    #[test]
    fn two_readers_agree_on_what_is_canonical(
        item in item(),
        change in proptest::option::weighted(0.2, (any::<prop::sample::Index>(), any::<u8>())),
    ) {
        let mut bytes = item;
        if let Some((at, to)) = change {
            let at = at.index(bytes.len());
            bytes[at] = to;
        }
        decoders::codec(&bytes);
    }
}

#[test]
fn what_only_the_other_reads_is_left_out_on_purpose() {
    use mercato_protocol::codec::check;
    // A tag, null, a half float, thirteen lists within each other, and a float that dcbor takes
    // for a whole number.
    let deep = [&[0x81; 13][..], &[0x01]].concat();
    let float = [&[0xfa][..], &2_492_113_408f32.to_be_bytes()].concat();
    for bytes in [&[0xc1, 0x01][..], &[0xf6], &[0xf9, 0x3e, 0x00], &deep, &float] {
        assert!(check(bytes).is_err(), "{bytes:x?}");
        assert!(dcbor::CBOR::try_from_data(bytes).is_ok(), "{bytes:x?}");
        decoders::codec(bytes);
    }
    for bytes in [&[0x81; 12][..], &[0x81; 11]].map(|lists| [lists, &[0x01]].concat()) {
        assert_eq!(check(&bytes), Ok(()));
        decoders::codec(&bytes);
    }
}

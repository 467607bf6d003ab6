//! Questions for names: what is let in, what is passed by, and what is counted, say the same.

use super::*;

/// The same questions that are let in are passed by before, and answers from where they are told; what no
/// connection bounds is counted.
#[test]
fn questions_for_names_are_bounded_and_untracked() {
    let rules = |table: &Table, chain: &str, comment: &str| -> Vec<Vec<Expression>> {
        let chain = table.chains.get(chain).map(|chain| &*chain.rules).unwrap_or_default();
        let of_it = chain.iter().filter(|rule| rule.comment == comment);
        let words = |rule: &PacketRule| {
            let ends = [Expression::Notrack, Expression::Verdict(Verdict::Accept)];
            rule.expressions.iter().filter(|word| !ends.contains(word)).cloned().collect()
        };
        of_it.map(words).collect()
    };
    for wanted in machines() {
        let table = guard(&wanted, Family::V4, Some("eth0"));
        let let_in = rules(&table, "input", "guests ask for names");
        assert_eq!(let_in.len(), 2, "by UDP and TCP");
        assert_eq!(rules(&table, "from_guest", "guests ask for names, untracked"), let_in);
        let bounds = rules(&table, "input", "guests ask for names too often");
        for (bound, let_in) in bounds.iter().zip(&let_in) {
            let [
                conditions @ ..,
                of,
                over,
                Expression::Counter,
                Expression::Verdict(Verdict::Drop),
            ] = &bound[..]
            else {
                panic!("{bound:?}")
            };
            assert_eq!(conditions, &let_in[..]);
            assert_eq!(*of, source(Family::V4));
            let packets = |bound: &Bound| matches!(bound, Bound::Limit { .. });
            assert!(matches!(over, Expression::Dynset(_, bound) if packets(bound)), "{over:?}");
        }
        assert_eq!(bounds.len(), let_in.len());
        let told = &table.chains["told"];
        let base = told.base.as_ref().unwrap();
        assert_eq!((base.hook, told.rules.len()), (Hook::Output, 2));
        assert!(told.rules.iter().all(|rule| rule.expressions.contains(&Expression::Notrack)));
        let nobody = Wanted { names: None, ..wanted };
        let table = guard(&nobody, Family::V4, Some("eth0"));
        assert!(!table.chains.contains_key("told"));
        assert!(rules(&table, "from_guest", "guests ask for names, untracked").is_empty());
    }
}

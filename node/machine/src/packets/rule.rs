//! A rule from its conditions and its verdict.

use super::expression::{Expression, Verdict};
use super::table::PacketRule;
use crate::family::Family;

/// What is dropped is counted.
pub(super) fn drop_of(
    comment: &str,
    conditions: impl IntoIterator<Item = Expression>,
) -> PacketRule {
    let counted = conditions.into_iter().chain([Expression::Counter]);
    rule(comment, counted, Verdict::Drop)
}

/// What is refused is counted, and its sender is told.
pub(super) fn refusal_of(
    comment: &str,
    conditions: impl IntoIterator<Item = Expression>,
    family: Family,
) -> PacketRule {
    let counted = conditions.into_iter().chain([Expression::Counter]);
    rule(comment, counted, Verdict::Reject(family))
}

pub(super) fn rule(
    comment: &str,
    conditions: impl IntoIterator<Item = Expression>,
    verdict: Verdict,
) -> PacketRule {
    said(comment, conditions.into_iter().chain([Expression::Verdict(verdict)]))
}

pub(super) fn said(comment: &str, expressions: impl IntoIterator<Item = Expression>) -> PacketRule {
    PacketRule { comment: comment.to_owned(), expressions: expressions.into_iter().collect() }
}

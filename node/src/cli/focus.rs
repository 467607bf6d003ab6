//! A statement in the columns of FOCUS 1.0, the open specification of cost and usage data,
//! so that what was bought here goes where all other bills go. A row for each resource, and
//! one for each credit. Amounts are decimal text, exactly as they were signed.

use mercato_broker::{Line, Side, Statement};
use mercato_protocol::invoice::CreditKind;
use mercato_protocol::price::{MICROS, Money, Price};
use mercato_protocol::resources::Resource;
use serde::Serialize;

use super::deals::peer;
use super::text::{name, timestamp};
use crate::admin::Deal;

/// One row. Columns that do not apply are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Row {
    billed_cost: String,
    billing_account_id: String,
    billing_currency: String,
    billing_period_end: String,
    billing_period_start: String,
    charge_category: &'static str,
    charge_class: &'static str,
    charge_description: String,
    charge_frequency: &'static str,
    charge_period_end: String,
    charge_period_start: String,
    consumed_quantity: String,
    consumed_unit: &'static str,
    contracted_cost: String,
    contracted_unit_price: String,
    effective_cost: String,
    invoice_issuer_name: String,
    list_cost: String,
    list_unit_price: String,
    pricing_category: &'static str,
    pricing_quantity: String,
    pricing_unit: &'static str,
    provider_name: String,
    publisher_name: String,
    resource_id: String,
    resource_type: String,
    service_category: &'static str,
    service_name: &'static str,
    sku_id: String,
}

/// The rows of a statement; none as long as nothing is billed.
pub(crate) fn rows(statement: &Statement, deal: &Deal) -> Vec<Row> {
    let (Some(from_ms), Some(to_ms)) = (statement.from_ms, statement.to_ms) else {
        return Vec::new();
    };
    let provider = match deal.side {
        Side::Provider => statement.provider.short(),
        Side::Consumer => peer(deal),
    };
    let currency = match &deal.terms.price {
        Price::Free => "XXX".to_owned(),
        Price::Posted { currency, .. } => currency.to_string(),
    };
    let [from, to] = [from_ms, to_ms].map(timestamp);
    let common = Row {
        billing_account_id: statement.consumer.to_string(),
        billing_currency: currency,
        billing_period_end: to.clone(),
        billing_period_start: from.clone(),
        charge_period_end: to,
        charge_period_start: from,
        invoice_issuer_name: provider.clone(),
        provider_name: provider.clone(),
        publisher_name: provider,
        resource_id: statement.contract.to_string(),
        service_category: "Compute",
        service_name: "Mercato lease",
        ..Row::default()
    };
    let usage = statement.lines.iter().map(|(resource, line)| usage(&common, deal, resource, line));
    let credits = statement.credits.iter().map(|credit| {
        let why = match credit.kind {
            CreditKind::Availability => "less of the term than promised",
            CreditKind::ReclaimNotice => "less reclaim notice than promised",
        };
        let cost = format!("-{}", amount(Some(credit.amount)));
        Row {
            billed_cost: cost.clone(),
            contracted_cost: cost.clone(),
            effective_cost: cost.clone(),
            list_cost: cost,
            charge_category: "Credit",
            charge_description: why.to_owned(),
            charge_frequency: "One-Time",
            ..common.clone()
        }
    });
    usage.chain(credits).collect()
}

fn usage(common: &Row, deal: &Deal, resource: &Resource, line: &Line) -> Row {
    let cost = amount(line.amount);
    let unit_price = match &deal.terms.price {
        Price::Free => None,
        Price::Posted { currency, units } => units.get(resource).map(|unit| {
            let micros = u128::from(unit.micros) * 3_600 / u128::from(unit.period_s.max(1));
            let micros = u64::try_from(micros).unwrap_or(u64::MAX);
            Money { micros, currency: *currency }
        }),
    };
    let (quantity, unit) = hours(resource, line.counter);
    Row {
        billed_cost: cost.clone(),
        contracted_cost: cost.clone(),
        effective_cost: cost.clone(),
        list_cost: cost,
        contracted_unit_price: amount(unit_price),
        list_unit_price: amount(unit_price),
        charge_category: "Usage",
        charge_description: format!("{resource}, {}", name(deal.terms.class)),
        charge_frequency: "Usage-Based",
        consumed_quantity: quantity.clone(),
        consumed_unit: unit,
        pricing_category: "Committed",
        pricing_quantity: quantity,
        pricing_unit: unit,
        resource_type: resource.to_string(),
        sku_id: format!("{}/{resource}", deal.terms.pool),
        ..common.clone()
    }
}

/// A metered counter in the units of prices, by the hour, to the thousandth.
pub(crate) fn hours(resource: &Resource, counter: u64) -> (String, &'static str) {
    const HOUR_MS: u64 = 3_600_000;
    let (per_unit, unit) = match resource {
        Resource::Cpu => (1_000, "core-hours"),
        Resource::Memory => (1_024, "GiB-hours"),
        Resource::Pods => (1, "pod-hours"),
        Resource::Gpu(_) => (1, "GPU-hours"),
    };
    let thousandths = u128::from(counter) * 1_000 / u128::from(per_unit * HOUR_MS);
    (format!("{}.{:03}", thousandths / 1_000, thousandths % 1_000), unit)
}

fn amount(money: Option<Money>) -> String {
    let micros = money.map_or(0, |money| money.micros);
    format!("{}.{:06}", micros / MICROS, micros % MICROS)
}

/// RFC 4180: a header, then a line for each row.
pub(crate) fn csv(rows: &[Row]) -> String {
    let fields = |row: &Row| match serde_json::to_value(row) {
        Ok(serde_json::Value::Object(fields)) => fields,
        Ok(_) | Err(_) => serde_json::Map::new(),
    };
    let line = |cells: Vec<String>| cells.join(",") + "\r\n";
    let header = fields(&Row::default()).keys().cloned().collect();
    let row = |row: &Row| {
        line(fields(row).values().map(|value| quoted(value.as_str().unwrap_or_default())).collect())
    };
    line(header) + &rows.iter().map(row).collect::<String>()
}

pub(super) fn quoted(cell: &str) -> String {
    if cell.contains(['"', ',', '\r', '\n']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_shown_in_the_units_of_prices() {
        let shown = |resource, counter| {
            let (hours, unit) = hours(resource, counter);
            format!("{hours} {unit}")
        };
        assert_eq!(shown(&Resource::Cpu, 8_000 * 3_600_000 * 4), "32.000 core-hours");
        assert_eq!(shown(&Resource::Memory, 1_024 * 1_800_000), "0.500 GiB-hours");
        assert_eq!(shown(&Resource::Pods, u64::MAX), "5124095576030.431 pod-hours");
    }

    #[test]
    fn a_cell_is_quoted_where_it_must_be() {
        let row = Row { provider_name: "a \"b\", c".to_owned(), ..Row::default() };
        let text = csv(&[row]);
        let (header, row) = text.split_once("\r\n").unwrap();
        assert!(header.starts_with("BilledCost,BillingAccountId,"), "{header}");
        assert!(row.contains(",\"a \"\"b\"\", c\","), "{row}");
        assert_eq!(header.matches(',').count() + 1, row.matches(',').count());
    }
}

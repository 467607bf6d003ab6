//! A statement in the columns of FOCUS 1.3, the open specification of cost and usage data,
//! so that what was bought here goes where all other bills go. A row for each resource, and
//! one for each credit. All amounts are decimal text. Billed and effective cost are what was
//! signed, to the millionth; list and contracted cost are unit price times quantity, exactly,
//! and differ from what is billed by the rounding of that alone.

use mercato_broker::{Line, Side, Statement};
use mercato_protocol::invoice::CreditKind;
use mercato_protocol::price::{MICROS, Money, Price};
use mercato_protocol::resources::Resource;
use mercato_protocol::terms::Class;
use serde::Serialize;
use serde_json::json;

use super::deal::peer;
use super::text::{csv_cell, name, timestamp};
use crate::admin::Deal;

/// One row. Columns that do not apply are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Row {
    billed_cost: String,
    billing_account_id: String,
    billing_account_name: String,
    billing_account_type: &'static str,
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
    contract_applied: String,
    contracted_cost: String,
    contracted_unit_price: String,
    effective_cost: String,
    host_provider_name: String,
    invoice_id: String,
    invoice_issuer_name: String,
    list_cost: String,
    list_unit_price: String,
    pricing_category: &'static str,
    pricing_currency: String,
    pricing_quantity: String,
    pricing_unit: &'static str,
    provider_name: String,
    publisher_name: String,
    resource_id: String,
    resource_type: String,
    service_category: &'static str,
    service_name: &'static str,
    service_provider_name: String,
    service_subcategory: &'static str,
    sku_id: String,
    sku_meter: String,
    sku_price_id: String,
}

/// The rows of a statement; none as long as nothing is billed. `us` is what this cluster is
/// called.
pub(crate) fn rows(statement: &Statement, deal: &Deal, us: &str) -> Vec<Row> {
    let (Some(from_ms), Some(to_ms)) = (statement.from_ms, statement.to_ms) else {
        return Vec::new();
    };
    let (provider, consumer) = match deal.side {
        Side::Provider => (us.to_owned(), peer(deal)),
        Side::Consumer => (peer(deal), us.to_owned()),
    };
    let currency = match &deal.terms.price {
        Price::Free => "XXX".to_owned(),
        Price::Posted { currency, .. } => currency.to_string(),
    };
    let [from, to] = [from_ms, to_ms].map(timestamp);
    let common = Row {
        billing_account_id: statement.consumer.to_string(),
        billing_account_name: consumer,
        billing_account_type: "Cluster",
        billing_currency: currency.clone(),
        billing_period_end: to.clone(),
        billing_period_start: from.clone(),
        charge_period_end: to,
        charge_period_start: from,
        host_provider_name: provider.clone(),
        // The invoice of a contract is one.
        invoice_id: statement.contract.to_string(),
        invoice_issuer_name: provider.clone(),
        pricing_currency: currency,
        provider_name: provider.clone(),
        publisher_name: provider.clone(),
        resource_id: statement.contract.to_string(),
        service_category: "Compute",
        service_name: "Mercato lease",
        service_provider_name: provider,
        service_subcategory: "Containers",
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
    let billed = amount(line.amount);
    let price = match &deal.terms.price {
        Price::Free => Some(0),
        // What has no price of its own is included.
        Price::Posted { units, .. } => units.get(resource).map_or(Some(0), |unit| {
            let nanos = u128::from(unit.micros) * 1_000 * 3_600;
            Some(nanos / u128::from(unit.period_s.max(1)))
        }),
    };
    let (quantity, unit) = hours_nanos(resource, line.counter);
    let (category, subcategory) = match resource {
        Resource::Storage => ("Storage", "Block Storage"),
        Resource::Cpu | Resource::Memory | Resource::Pods | Resource::Gpu(_) => {
            (common.service_category, common.service_subcategory)
        }
    };
    let exact = price.and_then(|price| price.checked_mul(quantity));
    let cost = exact.map_or_else(|| billed.clone(), |exact| decimal(exact, 18));
    let (price, quantity) = (decimal(price.unwrap_or(0), 9), decimal(quantity, 9));
    let contract = &common.resource_id;
    let applied = json!({ "Elements": [{ "ContractID": contract, "ContractCommitmentID": contract,
        "ContractCommitmentAppliedQuantity": quantity, "ContractCommitmentAppliedUnit": unit }] });
    let sku = format!("{}/{resource}", deal.terms.pool);
    Row {
        billed_cost: billed.clone(),
        contract_applied: applied.to_string(),
        contracted_cost: cost.clone(),
        effective_cost: billed,
        list_cost: cost,
        contracted_unit_price: price.clone(),
        list_unit_price: price,
        charge_category: "Usage",
        charge_description: format!("{resource}, {}", name(deal.terms.class)),
        charge_frequency: "Usage-Based",
        consumed_quantity: quantity.clone(),
        consumed_unit: unit,
        // Committed is what a discount for a commitment applies to: there is none.
        pricing_category: match deal.terms.class {
            Class::Reserved => "Standard",
            Class::Spot => "Dynamic",
        },
        pricing_quantity: quantity,
        pricing_unit: unit,
        service_category: category,
        service_subcategory: subcategory,
        resource_type: resource.to_string(),
        sku_meter: resource.to_string(),
        sku_price_id: format!("{sku}/{}", name(deal.terms.class)),
        sku_id: sku,
        ..common.clone()
    }
}

/// A metered counter in the units of prices, by the hour, to the thousandth.
pub(crate) fn hours(resource: &Resource, counter: u64) -> (String, &'static str) {
    let (nanos, unit) = hours_nanos(resource, counter);
    let thousandths = nanos / 1_000_000;
    (format!("{}.{:03}", thousandths / 1_000, thousandths % 1_000), unit)
}

/// The same in billionths: an hour has nines in it that no decimal ends.
fn hours_nanos(resource: &Resource, counter: u64) -> (u128, &'static str) {
    const HOUR_MS: u128 = 3_600_000;
    let (per_unit, unit) = match resource {
        Resource::Cpu => (1_000, "core-hours"),
        Resource::Memory | Resource::Storage => (1_024, "GiB-hours"),
        Resource::Pods => (1, "pod-hours"),
        Resource::Gpu(_) => (1, "GPU-hours"),
    };
    (u128::from(counter) * 1_000_000_000 / (per_unit * HOUR_MS), unit)
}

/// A number of so many decimals, without those that say nothing.
fn decimal(n: u128, places: u32) -> String {
    let one = 10u128.pow(places);
    let width = places as usize;
    let text = format!("{}.{:0width$}", n / one, n % one);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
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
        line(
            fields(row)
                .values()
                .map(|value| csv_cell(value.as_str().unwrap_or_default()))
                .collect(),
        )
    };
    line(header) + &rows.iter().map(row).collect::<String>()
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
        assert_eq!(shown(&Resource::Storage, 10_240 * 7_200_000), "20.000 GiB-hours");
        assert_eq!(shown(&Resource::Pods, u64::MAX), "5124095576030.431 pod-hours");
    }

    /// The number that a decimal text is, in 10^-18.
    fn read(text: &str) -> u128 {
        let (whole, rest) = text.split_once('.').unwrap_or((text, ""));
        let digits = format!("{whole}{rest:0<18}");
        assert!(rest.len() <= 18 && !text.ends_with('.'), "{text}");
        digits.parse().unwrap()
    }

    #[test]
    fn a_unit_price_times_a_quantity_is_the_cost() {
        let terms = json!({ "pool": "amd64", "platform": { "arch": "amd64", "os": "linux" },
            "quantity": { "cpuMillis": 8_000 }, "class": "spot", "termS": 3_600,
            "isolation": "runc", "networkIsolation": "none", "price": { "posted": {
                "currency": "EUR", "units": { "cpu": { "micros": 20_001, "periodS": 3_600 },
                    "gpu.h100": { "micros": 40_000, "periodS": 60 } } } },
            "podSecurity": "baseline", "network": {}, "transitHops": 0, "onDisconnect": "keep",
            "reclaimNoticeS": 3_600, "sla": null, "meteringIntervalS": 300,
            "disputeTolerancePpm": 10_000 });
        let mut deal = Deal {
            terms: serde_json::from_value(terms).unwrap(),
            ..crate::admin::samples::deal(mercato_protocol::negotiation::State::Active)
        };
        let micros = |micros| Some(Money { micros, currency: "EUR".parse().unwrap() });
        // 8 cores for 7 s and 1 ms, 1 GPU for a third of an hour; memory is included.
        let lines = [
            ("cpu", 56_008_000, micros(311)),
            ("gpu.h100", 1_200_001, micros(800_000)),
            ("memory", 7_001, None),
        ];
        let lines = lines.map(|(resource, counter, amount)| {
            (resource.parse().unwrap(), Line { counter, amount })
        });
        let statement = Statement {
            contract: deal.id.into(),
            provider: deal.peer,
            consumer: deal.peer,
            from_ms: Some(0),
            to_ms: Some(7_001),
            lines: lines.into(),
            total: micros(800_311),
            credits: Vec::new(),
            due: micros(800_311),
        };
        for row in rows(&statement, &deal, "rome") {
            for (price, cost) in [
                (&row.list_unit_price, &row.list_cost),
                (&row.contracted_unit_price, &row.contracted_cost),
            ] {
                let product =
                    read(price) / 1_000_000_000 * (read(&row.pricing_quantity) / 1_000_000_000);
                assert_eq!(product, read(cost), "{row:?}");
                assert!(
                    read(cost).abs_diff(read(&row.billed_cost)) <= 1_000_000_000_000,
                    "{row:?}"
                );
            }
            assert_eq!(row.pricing_category, "Dynamic", "spot is no commitment");
            assert_eq!(
                (row.billing_account_name.as_str(), row.service_provider_name.as_str()),
                ("rome", "turin")
            );
            assert!(row.contract_applied.contains(&deal.id.to_string()), "{row:?}");
        }
        deal.terms.class = Class::Reserved;
        deal.side = Side::Provider;
        let sold = rows(&statement, &deal, "rome");
        assert_eq!(
            (sold[0].pricing_category, sold[0].billing_account_name.as_str()),
            ("Standard", "turin")
        );
        assert_eq!(sold[0].host_provider_name, "rome");
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

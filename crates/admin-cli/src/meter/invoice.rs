//! Invoices: usage times prices. Each line is rounded to hundredths of the currency, and a total is the sum of its lines.

use serde_json::{Value, json};
use tidegate_admin::TenantUsage;

use super::prices::{BASE, ITEMS, NANO, PriceList};

/// A line of an invoice.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    item: &'static str,
    /// In units of the price, to millionths.
    quantity: String,
    price: String,
    /// Hundredths of the currency.
    amount: i128,
}

/// The lines of a tenant's invoice, for items that have a price.
fn lines(prices: &PriceList, usage: &TenantUsage) -> Vec<Line> {
    let base = prices.price(&usage.tenant, BASE).map(|price| Line {
        item: BASE,
        quantity: "1".to_owned(),
        price: decimal(price, NANO, 9),
        amount: rounded(price, NANO / 100),
    });
    let items = ITEMS.iter().filter_map(|item| {
        let price = prices.price(&usage.tenant, item.key)?;
        let used = i128::from((item.quantity)(usage));
        Some(Line {
            item: item.key,
            quantity: decimal(rounded(used * 1_000_000, item.unit), 1_000_000, 6),
            price: decimal(price, NANO, 9),
            amount: amount(used, price, item.unit),
        })
    });
    base.into_iter().chain(items).collect()
}

/// `used / unit * price` in hundredths; an amount that is too large for that is the largest.
fn amount(used: i128, price: i128, unit: i128) -> i128 {
    used.checked_mul(price).map_or(i128::MAX / 2, |product| rounded(product, unit.saturating_mul(NANO / 100)))
}

/// A quotient of numbers that are not negative, rounded half up.
fn rounded(number: i128, divisor: i128) -> i128 {
    (number + divisor / 2) / divisor
}

/// A number of `1 / unit` as a decimal fraction without zeros at its end.
fn decimal(number: i128, unit: i128, digits: usize) -> String {
    let text = format!("{}.{:0digits$}", number / unit, number % unit);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn hundredths(amount: i128) -> String {
    format!("{}.{:02}", amount / 100, amount % 100)
}

fn total(lines: &[Line]) -> i128 {
    lines.iter().fold(0, |sum: i128, line| sum.saturating_add(line.amount))
}

/// The header, the lines of each tenant, and its total.
pub(super) fn rows(prices: &PriceList, tenants: &[TenantUsage]) -> Vec<Vec<String>> {
    let mut rows = vec![["tenant", "item", "quantity", "price", "amount", "currency"].map(str::to_owned).to_vec()];
    for usage in tenants {
        let row = |item: &str, quantity: &str, price: &str, amount: i128| {
            vec![
                usage.tenant.clone(),
                item.to_owned(),
                quantity.to_owned(),
                price.to_owned(),
                hundredths(amount),
                prices.currency.clone(),
            ]
        };
        let lines = lines(prices, usage);
        rows.extend(lines.iter().map(|line| row(line.item, &line.quantity, &line.price, line.amount)));
        rows.push(row("total", "", "", total(&lines)));
    }
    rows
}

/// An object for each tenant. Numbers are texts, because they are exact decimals.
pub(super) fn to_json(prices: &PriceList, tenants: &[TenantUsage]) -> Value {
    let line = |line: &Line| {
        json!({
            "item": line.item,
            "quantity": line.quantity,
            "price": line.price,
            "amount": hundredths(line.amount),
        })
    };
    let invoice = |usage: &TenantUsage| {
        let lines = lines(prices, usage);
        json!({
            "tenant": usage.tenant,
            "currency": prices.currency,
            "lines": lines.iter().map(line).collect::<Vec<_>>(),
            "total": hundredths(total(&lines)),
        })
    };
    tenants.iter().map(invoice).collect()
}

#[cfg(test)]
mod tests {
    use tidegate_document::FileText;

    use super::*;

    #[test]
    fn an_invoice_is_exact_to_the_cent() {
        let text = "currency = 'EUR'\n[price]\nbase = 9.99\nmillion_messages_in = 0.5\ngigabyte_out = 0.07\n";
        let usage = TenantUsage {
            tenant: "acme".to_owned(),
            messages_in: 12_345_678,
            bytes_out: 500_000_000,
            ..TenantUsage::default()
        };
        let rows = rows(&PriceList::parse(&FileText::new("prices.toml", text)).unwrap(), &[usage]);
        let lines: Vec<String> = rows.iter().map(|row| row.join(" ")).collect();
        assert_eq!(
            lines,
            [
                "tenant item quantity price amount currency",
                "acme base 1 9.99 9.99 EUR",
                "acme million_messages_in 12.345678 0.5 6.17 EUR",
                "acme gigabyte_out 0.5 0.07 0.04 EUR",
                "acme total   16.20 EUR",
            ]
        );
    }

    #[test]
    fn the_largest_usage_has_an_amount() {
        let list =
            PriceList::parse(&FileText::new("prices.toml", "[price]\nmillion_messages_in = 1000000000\n")).unwrap();
        let usage = TenantUsage { messages_in: u64::MAX, ..TenantUsage::default() };
        assert!(total(&lines(&list, &usage)) > 0);
        assert!(amount(i128::from(u64::MAX), i128::MAX, 1) > 0);
    }
}

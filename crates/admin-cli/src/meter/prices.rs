//! A price list: what each item costs, for all tenants and for single ones.

use std::collections::BTreeMap;
use std::path::Path;

use tidegate_admin::TenantUsage;
use tidegate_document::{FileText, Findings, Keys, ReadError};

/// Parts of a unit of the currency in which prices are kept.
pub(super) const NANO: i128 = 1_000_000_000;
/// Highest price.
const MAX_PRICE: f64 = 1e9;
const DAYS_30_S: i128 = 30 * 86_400;

/// Something that has a price.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    /// Its key in a price list, with its unit.
    pub(super) key: &'static str,
    /// How much of it a tenant has used, in the smallest unit.
    pub(super) quantity: fn(&TenantUsage) -> u64,
    /// The number of these that has the price.
    pub(super) unit: i128,
}

/// All items, in the order of an invoice.
pub(super) static ITEMS: &[Item] = &[
    Item { key: "million_messages_in", quantity: |usage| usage.messages_in, unit: 1_000_000 },
    Item { key: "million_messages_out", quantity: |usage| usage.messages_out, unit: 1_000_000 },
    Item { key: "gigabyte_in", quantity: |usage| usage.bytes_in, unit: 1_000_000_000 },
    Item { key: "gigabyte_out", quantity: |usage| usage.bytes_out, unit: 1_000_000_000 },
    Item { key: "million_connection_minutes", quantity: |usage| usage.connection_ms, unit: 60_000 * 1_000_000 },
    Item { key: "million_session_minutes", quantity: |usage| usage.session_ms, unit: 60_000 * 1_000_000 },
    Item { key: "million_sink_deliveries", quantity: |usage| usage.sink_deliveries, unit: 1_000_000 },
    Item {
        key: "gigabyte_retained_30_days",
        quantity: |usage| usage.retained_byte_seconds,
        unit: 1_000_000_000 * DAYS_30_S,
    },
    Item {
        key: "gigabyte_stored_30_days",
        quantity: |usage| usage.stored_byte_seconds,
        unit: 1_000_000_000 * DAYS_30_S,
    },
];

/// The key of the fixed part of an invoice.
pub(super) const BASE: &str = "base";

/// Prices by key, in billionths of the currency.
type Prices = BTreeMap<String, i128>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PriceList {
    /// The currency, as invoices name it.
    pub(super) currency: String,
    all: Prices,
    of_tenants: BTreeMap<String, Prices>,
}

/// Why a price list is not used.
#[derive(Debug, thiserror::Error)]
pub(super) enum PriceListError {
    /// The file cannot be read.
    #[error("price list: {0}")]
    Read(#[from] ReadError),
    /// Its keys or values are wrong.
    #[error("price list: {0}")]
    Wrong(Findings),
}

impl PriceList {
    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read or is no price list.
    pub(super) fn read(path: &Path) -> Result<Self, PriceListError> {
        Self::parse(&FileText::load(path)?).map_err(PriceListError::Wrong)
    }

    pub(super) fn parse(file: &FileText) -> Result<Self, Findings> {
        file.read(|keys| {
            let currency = keys.text("currency").unwrap_or_default();
            let all = keys.table("price", |keys| Some(prices(keys))).unwrap_or_default();
            let of_tenants = keys.table("tenant", |keys| {
                let names = keys.names().into_iter();
                Some(
                    names
                        .filter_map(|name| Some((name.clone(), keys.table(&name, |keys| Some(prices(keys)))?)))
                        .collect(),
                )
            });
            Some(Self { currency, all, of_tenants: of_tenants.unwrap_or_default() })
        })
    }

    /// The price of a key for a tenant: its own, else that of all; `None` where neither is there.
    pub(super) fn price(&self, tenant: &str, key: &str) -> Option<i128> {
        let own = self.of_tenants.get(tenant).and_then(|prices| prices.get(key));
        own.or_else(|| self.all.get(key)).copied()
    }
}

fn prices(keys: &mut Keys<'_>) -> Prices {
    let known = ITEMS.iter().map(|item| item.key).chain([BASE]);
    known.filter_map(|key| Some((key.to_owned(), nano(keys.fraction(key, 0.0..=MAX_PRICE)?)))).collect()
}

/// A price in billionths of the currency.
fn nano(price: f64) -> i128 {
    // At most a billion billions, which both types hold.
    (price * 1e9).round() as i128
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_has_its_own_price_or_that_of_all() {
        let text = "currency = 'EUR'\n[price]\nmillion_messages_in = 0.1\nbase = 5\n[tenant.acme]\nbase = 0\n";
        let list = PriceList::parse(&FileText::new("prices.toml", text)).unwrap();
        assert_eq!(list.price("acme", "base"), Some(0));
        assert_eq!(list.price("other", "base"), Some(5 * NANO));
        assert_eq!(list.price("acme", "million_messages_in"), Some(NANO / 10));
        assert_eq!(list.price("acme", "gigabyte_in"), None);
    }

    #[test]
    fn a_wrong_price_list_is_refused_with_its_key() {
        for (text, named) in [
            ("prices = 1", "prices"),
            ("[price]\nmessages = 1", "messages"),
            ("[price]\nbase = -1", "price.base"),
            ("[price]\nbase = 'x'", "price.base"),
            ("[tenant.a]\nbase = nan", "tenant.a.base"),
            ("currency = 5", "currency"),
            ("[price", "price"),
        ] {
            let error = PriceList::parse(&FileText::new("prices.toml", text)).unwrap_err().to_string();
            assert!(error.contains(named), "{text}: {error}");
        }
    }
}

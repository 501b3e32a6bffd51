//! A price list: what each item costs, for all tenants and for single ones.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use tidegate_admin::TenantUsage;
use toml::{Table, Value};

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
#[error("price list {}: {fault}", .path.display())]
pub(super) struct PriceListError {
    path: PathBuf,
    fault: PriceListFault,
}

/// The fault of a price list.
#[derive(Debug, thiserror::Error)]
pub(super) enum PriceListFault {
    /// The file cannot be read.
    #[error(transparent)]
    Read(#[from] io::Error),
    /// It is no TOML.
    #[error(transparent)]
    Syntax(#[from] toml::de::Error),
    /// A key that must be a table.
    #[error("`{0}` must be a table")]
    NoTable(String),
    /// The currency is no text.
    #[error("`currency` must be a text")]
    Currency,
    /// A key outside sections.
    #[error("there is no key `{0}`; the keys are currency, price and tenant")]
    UnknownKey(String),
    /// An item without a price.
    #[error("`{section}` has no key `{key}`; the keys are {keys}")]
    UnknownItem {
        /// The section.
        section: String,
        /// The key.
        key: String,
        /// The keys of a section.
        keys: String,
    },
    /// A price that is no number, or out of range.
    #[error("`{section}.{key}` must be a number from 0 to {MAX_PRICE}")]
    Price {
        /// The section.
        section: String,
        /// The key.
        key: String,
    },
}

impl PriceList {
    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read or is no price list.
    pub(super) fn read(path: &Path) -> Result<Self, PriceListError> {
        let read = fs::read_to_string(path).map_err(PriceListFault::Read);
        read.and_then(|text| Self::parse(&text)).map_err(|fault| PriceListError { path: path.to_owned(), fault })
    }

    pub(super) fn parse(text: &str) -> Result<Self, PriceListFault> {
        let table: Table = text.parse()?;
        let mut list = Self::default();
        for (key, value) in &table {
            match (key.as_str(), value) {
                ("currency", Value::String(currency)) => list.currency.clone_from(currency),
                ("price", Value::Table(table)) => list.all = prices("price", table)?,
                ("tenant", Value::Table(tenants)) => {
                    for (name, value) in tenants {
                        let section = format!("tenant.{name}");
                        let table = value.as_table().ok_or_else(|| PriceListFault::NoTable(section.clone()))?;
                        list.of_tenants.insert(name.clone(), prices(&section, table)?);
                    }
                }
                ("currency", _) => return Err(PriceListFault::Currency),
                ("price" | "tenant", _) => return Err(PriceListFault::NoTable(key.clone())),
                _ => return Err(PriceListFault::UnknownKey(key.clone())),
            }
        }
        Ok(list)
    }

    /// The price of a key for a tenant: its own, else that of all; `None` where neither is there.
    pub(super) fn price(&self, tenant: &str, key: &str) -> Option<i128> {
        let own = self.of_tenants.get(tenant).and_then(|prices| prices.get(key));
        own.or_else(|| self.all.get(key)).copied()
    }
}

fn prices(section: &str, table: &Table) -> Result<Prices, PriceListFault> {
    let mut prices = Prices::new();
    for (key, value) in table {
        if key != BASE && !ITEMS.iter().any(|item| item.key == key) {
            let keys: Vec<&str> = ITEMS.iter().map(|item| item.key).chain([BASE]).collect();
            let (section, key, keys) = (section.to_owned(), key.clone(), keys.join(", "));
            return Err(PriceListFault::UnknownItem { section, key, keys });
        }
        let number = value.as_float().or_else(|| value.as_integer().and_then(|whole| format!("{whole}").parse().ok()));
        let price = number.filter(|price| (0.0..=MAX_PRICE).contains(price));
        let out_of_range = || PriceListFault::Price { section: section.to_owned(), key: key.clone() };
        let price = price.ok_or_else(out_of_range)?;
        prices.insert(key.clone(), nano(price));
    }
    Ok(prices)
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
        let list = PriceList::parse(text).unwrap();
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
            let error = PriceList::parse(text).unwrap_err().to_string();
            assert!(error.contains(named), "{text}: {error}");
        }
    }
}

//! Members of a cluster have the same `cluster.balance`. The value of the member that leads decides the sizes of shares, so
//! with different values the shares change whenever another member leads.

use std::collections::BTreeMap;

use tidegate_cluster::{Advert, Table};
use tidegate_config::sections::cluster::Balance;
use tidegate_config::value::Words;

/// The different values that the log has named last, by member; empty while all members have the same.
#[derive(Default)]
pub(super) struct Balances(BTreeMap<String, String>);

impl Balances {
    /// Compares the members of the table, and logs a warning when different values appear or change.
    pub(super) fn compare(&mut self, table: &Table, adverts: &BTreeMap<String, Advert>) {
        let found = different(table, adverts);
        if found == self.0 {
            return;
        }
        if !found.is_empty() {
            tracing::warn!(
                balance = ?found,
                "members have different values of cluster.balance: the sizes of their shares change whenever another member leads; give all members the same"
            );
        }
        self.0 = found;
    }
}

/// The value as the configuration writes it.
pub(super) fn word_of(balance: Balance) -> String {
    let at = Balance::VALUES.iter().position(|value| *value == balance);
    at.and_then(|at| Balance::WORDS.get(at)).map_or(String::new(), |(word, _)| (*word).to_owned())
}

/// The values of the living members, if there are several.
fn different(table: &Table, adverts: &BTreeMap<String, Advert>) -> BTreeMap<String, String> {
    let living = adverts.iter().filter(|(name, advert)| table.lives.get(*name) == Some(&advert.life));
    let values: BTreeMap<String, String> =
        living.filter_map(|(name, advert)| Some((name.clone(), advert.balance.clone()?))).collect();
    let mut pairs = values.values().zip(values.values().skip(1));
    if pairs.any(|(one, next)| one != next) { values } else { BTreeMap::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_living_members_have_different_balances() {
        let lives = BTreeMap::from([("a".to_owned(), 1), ("b".to_owned(), 2), ("c".to_owned(), 3)]);
        let table = Table { lives, ..Table::default() };
        let of =
            |life, balance: Option<&str>| Advert { life, balance: balance.map(str::to_owned), ..Advert::default() };
        let mut adverts =
            BTreeMap::from([("a".to_owned(), of(1, Some("load"))), ("b".to_owned(), of(2, Some("load")))]);
        adverts.insert("c".to_owned(), of(3, None));
        assert_eq!(different(&table, &adverts), BTreeMap::new(), "the version of `c` sends no value");
        adverts.insert("c".to_owned(), of(2, Some("weight")));
        assert_eq!(different(&table, &adverts), BTreeMap::new(), "this life of `c` has ended");
        adverts.insert("c".to_owned(), of(3, Some("weight")));
        let found: Vec<String> = different(&table, &adverts).into_values().collect();
        assert_eq!(found, ["load", "load", "weight"]);
    }
}

//! Levels whose resources stand on each other.

use serde::{Deserialize, Serialize};

use super::ResourceName;

/// How the resources of a level are named and ordered where the manager cannot choose: `NAME-N`, made in the order of
/// their numbers, and only the one with the highest number can be released. A name returns when its number does.
///
/// Such a resource may be held until all its clients have left, so orchestrators forget a broker before it is released,
/// and a dead one is created again by its provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stack {
    /// The prefix of all names.
    pub name: String,
    /// The number of the first one.
    pub first: u64,
}

impl Stack {
    /// The name of the resource with a number; `None` if the name would be invalid, or the number is below the first.
    pub fn resource(&self, number: u64) -> Option<ResourceName> {
        if number < self.first {
            return None;
        }
        format!("{}-{number}", self.name).parse().ok()
    }

    /// The number of a resource of this level; `None` for one that does not stand on the others, such as an attached
    /// one.
    pub fn number(&self, name: &ResourceName) -> Option<u64> {
        let digits = name.as_str().strip_prefix(&self.name)?.strip_prefix('-')?;
        let plain = digits == "0" || !digits.starts_with('0');
        let number = digits.parse().ok().filter(|_| plain && digits.bytes().all(|byte| byte.is_ascii_digit()))?;
        (number >= self.first).then_some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_read_from_a_name_and_back() {
        let stack = Stack { name: "mosquitto-1".to_owned(), first: 2 };
        let name = stack.resource(17).unwrap();
        assert_eq!((name.as_str(), stack.number(&name)), ("mosquitto-1-17", Some(17)));
        assert_eq!(stack.resource(1), None);
        for stranger in ["mosquitto-1", "mosquitto-17", "mosquitto-1-017", "mosquitto-1-", "mosquitto-1-1", "x-17"] {
            assert_eq!(stack.number(&stranger.parse().unwrap()), None, "{stranger}");
        }
    }
}

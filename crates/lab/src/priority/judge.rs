//! The meaning of an order of messages.

/// A message as it came: its priority, and its number in the order of publishing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Came {
    pub(super) priority: u8,
    pub(super) number: u32,
}

/// Messages that came while one of a higher priority still waited. The first `under_way` of them had left the queue
/// before the others came into it, and say nothing.
pub(super) fn out_of_turn(came: &[Came], under_way: usize) -> usize {
    let (mut highest, mut count) = (0, 0);
    for message in came.iter().skip(under_way).rev() {
        count += usize::from(highest > message.priority);
        highest = highest.max(message.priority);
    }
    count
}

/// Whether the messages of each priority arrived in the order of publishing.
pub(super) fn keeps_order(came: &[Came]) -> bool {
    let mut last = [None; 256];
    came.iter().all(|message| last[usize::from(message.priority)].replace(message.number) < Some(message.number))
}

/// Whether all came in the order of publishing.
pub(super) fn as_published(came: &[Came]) -> bool {
    came.is_sorted_by_key(|message| message.number)
}

/// The order of the messages that waited, in a few words.
pub(super) fn order(came: &[Came], under_way: usize) -> String {
    let out_of_turn = out_of_turn(came, under_way);
    if as_published(came) {
        "as published".to_owned()
    } else if out_of_turn == 0 {
        "by priority".to_owned()
    } else {
        format!("mixed: {out_of_turn} of {} out of turn", came.len().saturating_sub(under_way))
    }
}

/// The priorities in a row, such as `0 2 1`.
pub(super) fn row(priorities: impl IntoIterator<Item = u8>) -> String {
    priorities.into_iter().map(|priority| priority.to_string()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn came(messages: &[(u8, u32)]) -> Vec<Came> {
        messages.iter().map(|(priority, number)| Came { priority: *priority, number: *number }).collect()
    }

    #[test]
    fn a_message_is_out_of_turn_while_a_higher_one_waits() {
        let by_priority = came(&[(0, 0), (2, 1), (2, 4), (1, 2), (0, 3)]);
        assert_eq!(out_of_turn(&by_priority, 1), 0, "the first one was under way already");
        assert_eq!(out_of_turn(&by_priority, 0), 1);
        assert_eq!(order(&by_priority, 1), "by priority");
        let mixed = came(&[(1, 0), (2, 1), (0, 2), (1, 3), (2, 4)]);
        assert_eq!(out_of_turn(&mixed, 0), 3);
        assert_eq!(order(&came(&[(1, 1), (2, 0), (0, 2)]), 0), "mixed: 1 of 3 out of turn");
        assert_eq!(order(&came(&[(0, 0), (2, 1), (1, 2)]), 0), "as published");
    }

    #[test]
    fn order_is_kept_within_a_priority_or_not() {
        assert!(keeps_order(&came(&[(2, 1), (2, 4), (1, 2), (0, 0), (0, 3)])));
        assert!(!keeps_order(&came(&[(2, 4), (2, 1)])));
        assert!(as_published(&came(&[(0, 0), (2, 1)])) && !as_published(&came(&[(2, 1), (0, 0)])));
        assert_eq!(row([0, 2, 1]), "0 2 1");
    }
}

//! Topic filters as sets of topic names: whether one holds another.
//!
//! Filters are valid, and without `$share/GROUP/`. The functions do not allocate.

/// Whether every topic name that `asked` can match is matched by `rule`.
///
/// `a/#` covers `a` and `a/+/c`. `+` does not cover `#`. A rule that begins with a wildcard covers no topic below `$`
/// ([MQTT-4.7.2-1]).
pub fn covers(rule: &str, asked: &str) -> bool {
    let mut wanted = asked.split('/');
    let mut first = true;
    for level in rule.split('/') {
        let theirs = wanted.next();
        match (level, theirs) {
            ("#" | "+", Some(theirs)) if first && theirs.starts_with('$') => return false,
            ("#", _) => return true,
            // `#` has at least one level, which `+` takes when it comes first, and `#` behind it takes the rest.
            ("+", Some("#")) if first => return rule == "+/#",
            (_, None | Some("#")) => return false,
            ("+", Some(_)) => {}
            (level, Some(theirs)) if level == theirs => {}
            _ => return false,
        }
        first = false;
    }
    wanted.next().is_none()
}

/// Whether a filter matches a topic name ([MQTT-4.7.1-2], [MQTT-4.7.2-1]). The same as [`covers`] for a name, and
/// faster.
pub(crate) fn matches(filter: &str, topic: &str) -> bool {
    let (filter, topic) = (filter.as_bytes(), topic.as_bytes());
    if matches!(filter.first(), Some(b'+' | b'#')) && topic.first() == Some(&b'$') {
        return false;
    }
    // A wildcard fills its level, so a `+` or `#` always begins one.
    let (mut rest, mut left) = (filter, topic);
    loop {
        match (rest.split_first(), left.split_first()) {
            (Some((b'#', _)), _) | (None, None) => return true,
            (Some((b'+', behind)), _) => {
                let end = left.iter().position(|&byte| byte == b'/').unwrap_or(left.len());
                (rest, left) = (behind, left.split_at(end).1);
            }
            (Some((wanted, behind)), Some((byte, after))) if wanted == byte => (rest, left) = (behind, after),
            // `#` matches its parent level, too.
            (_, left) => return left.is_none() && rest == b"/#",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matching_is_covering_a_single_topic() {
        let filters = [
            "#", "+", "+/#", "a", "a/#", "a/+", "a/+/#", "+/b", "a//c", "/", "/#", "/+", "a/b", "$s/#", "$s/+", "a/+/c",
        ];
        let topics =
            ["a", "b", "a/b", "a/b/c", "a//c", "/", "//", "a/", "$s", "$s/a", "$s/a/b", "ab", "a/bc", "/b", "x/b"];
        for filter in filters {
            for topic in topics {
                assert_eq!(matches(filter, topic), covers(filter, topic), "{filter} {topic}");
            }
        }
    }
}

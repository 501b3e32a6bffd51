//! Topic filters as sets of topic names: whether one holds another, and whether two share a name.
//!
//! Both take the text of valid filters (without `$share/GROUP/`) and never allocate.

/// Whether every topic name that `asked` can match is matched by `rule`.
///
/// `a/#` covers `a` and `a/+/c`; `+` does not cover `#`; a rule that begins with a wildcard covers nothing below `$`
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

/// Whether there is a topic name that both filters match.
pub fn overlaps(one: &str, other: &str) -> bool {
    let (mut ones, mut others) = (one.split('/'), other.split('/'));
    let mut first = true;
    loop {
        match (ones.next(), others.next()) {
            (Some("#" | "+"), Some(level)) | (Some(level), Some("#" | "+")) if first && level.starts_with('$') => {
                return false;
            }
            // `#` matches its parent level, too.
            (Some("#"), _) | (_, Some("#")) | (None, None) => return true,
            (Some("+"), Some(_)) | (Some(_), Some("+")) => {}
            (Some(one), Some(other)) if one == other => {}
            _ => return false,
        }
        first = false;
    }
}

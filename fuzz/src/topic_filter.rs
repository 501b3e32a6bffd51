//! Judges a Topic Filter and a Topic Name, and whether they match. An input is the two, separated by the
//! first line feed.

use tidegate_mqtt::{TopicFilter, TopicName, topic};

/// Validity and matching agree with a plain reading of section 4.7.
///
/// # Panics
///
/// When one of these does not hold.
pub fn fuzz_one(data: &[u8]) {
    let end = data.iter().position(|&byte| byte == b'\n').unwrap_or(data.len());
    let (filter, name) = data.split_at(end);
    let name = name.get(1..).unwrap_or_default();
    let filter = judge_filter(filter);
    let name = judge_name(name);
    if let (Some(filter), Some(name)) = (filter, name) {
        assert_eq!(filter.matches(name), matches(filter, name), "{filter} and {name}");
    }
}

fn judge_name(bytes: &[u8]) -> Option<TopicName<'_>> {
    let valid = std::str::from_utf8(bytes)
        .is_ok_and(|text| (1..=65_535).contains(&text.len()) && !text.contains(['\0', '+', '#']));
    let name = TopicName::from_utf8(bytes);
    assert_eq!(name.is_ok(), valid, "{bytes:?}");
    name.ok()
}

fn judge_filter(bytes: &[u8]) -> Option<TopicFilter<'_>> {
    let valid = std::str::from_utf8(bytes).is_ok_and(is_filter);
    let filter = TopicFilter::from_utf8(bytes);
    assert_eq!(filter.is_ok(), valid, "{bytes:?}");
    let filter = filter.ok()?;
    if let Some((group, proper)) = filter.shared() {
        assert_eq!(filter.as_str(), format!("$share/{group}/{proper}"));
        assert_eq!(TopicFilter::new(proper.as_str()), Ok(proper));
    } else {
        assert_eq!(filter.proper(), filter);
    }
    let within = filter.levels().count() <= topic::MAX_TOPIC_LEVELS;
    assert_eq!(topic::check_levels(filter.proper().as_str()).is_ok(), within);
    Some(filter)
}

/// What a Topic Filter is, as the specification words it.
fn is_filter(text: &str) -> bool {
    if text.is_empty() || text.len() > 65_535 || text.contains('\0') {
        return false;
    }
    let levels: Vec<&str> = text.split('/').collect();
    let proper = match levels.as_slice() {
        // `$share` alone is a shared subscription without a group.
        ["$share"] | ["$share", _] => return false,
        ["$share", group, proper @ ..] => {
            let nested = matches!(proper, ["$share", ..]);
            if group.is_empty() || group.contains(['+', '#']) || proper == [""] || nested {
                return false;
            }
            proper
        }
        levels => levels,
    };
    let last = proper.len() - 1;
    proper.iter().enumerate().all(|(index, level)| {
        let hash = !level.contains('#') || (*level == "#" && index == last);
        hash && (!level.contains('+') || *level == "+")
    })
}

/// Whether they match, as the specification words it.
fn matches(filter: TopicFilter<'_>, name: TopicName<'_>) -> bool {
    let proper = filter.proper().as_str();
    if name.as_str().starts_with('$') && proper.starts_with(['+', '#']) {
        return false;
    }
    let mut levels = name.as_str().split('/');
    for wanted in proper.split('/') {
        if wanted == "#" {
            return true;
        }
        match levels.next() {
            Some(level) if wanted == "+" || wanted == level => {}
            _ => return false,
        }
    }
    levels.next().is_none()
}

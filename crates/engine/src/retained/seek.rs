//! The position in an ordered list of topics where the scan of a filter continues.

/// The meaning of a topic for the scan of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judgement {
    /// It matches.
    Matches,
    /// It does not match; the one behind it may.
    Next,
    /// It does not match, nor does anything before the place that was written down.
    Seek,
    /// Neither it nor any later topic matches.
    Done,
}

/// Compares a topic with a filter that has wildcards. `place` is overwritten with where to go on for
/// [`Judgement::Seek`], which is always behind the topic.
pub(super) fn judge(filter: &str, topic: &str, place: &mut String) -> Judgement {
    // The end of the last level that a `+` matches.
    let mut last_plus = None;
    let mut start = 0;
    let mut wanted = filter.split('/').peekable();
    while let Some(want) = wanted.next() {
        if matches!(want, "+" | "#") && start == 0 && topic.starts_with('$') {
            // Such topics are not for filters that start with a wildcard [MQTT-4.7.2-1]; `%` follows `$`.
            return seek(place, "", "%");
        }
        if want == "#" {
            return Judgement::Matches;
        }
        let Some(rest) = topic.get(start..) else {
            return Judgement::Next;
        };
        let end = start + rest.find('/').unwrap_or(rest.len());
        if want == "+" {
            last_plus = Some(end);
        } else if *want != topic[start..end] {
            return seek_literal(place, topic, start, want, wanted.peek().copied())
                .unwrap_or_else(|| seek_next_subtree(place, topic, last_plus));
        }
        start = end + 1;
    }
    if start == topic.len() + 1 {
        return Judgement::Matches;
    }
    seek_next_subtree(place, topic, last_plus)
}

/// Goes forward to the literal `want` at the level that starts at `start`, unless the topic has passed it.
fn seek_literal(place: &mut String, topic: &str, start: usize, want: &str, next: Option<&str>) -> Option<Judgement> {
    let parent = &topic[..start];
    seek(place, parent, want);
    let may_end_here = matches!(next, None | Some("#"));
    if may_end_here && place.as_str() > topic {
        return Some(Judgement::Seek);
    }
    place.push('/');
    (next.is_some() && place.as_str() > topic).then_some(Judgement::Seek)
}

/// Skips all topics below the level of the last `+`: no other value of that level was passed.
fn seek_next_subtree(place: &mut String, topic: &str, last_plus: Option<usize>) -> Judgement {
    // `0` follows `/`, and so everything below the level.
    last_plus.map_or(Judgement::Done, |end| seek(place, &topic[..end], "0"))
}

fn seek(place: &mut String, parent: &str, rest: &str) -> Judgement {
    place.clear();
    place.push_str(parent);
    place.push_str(rest);
    Judgement::Seek
}

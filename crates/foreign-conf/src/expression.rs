//! The regular expressions that configurations name clients and topics with, as far as they can be carried over: texts,
//! `.*`, `.+`, `[^.]+`, anchors, and a group of alternatives. Any other expression is not translated.

/// A part of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Text(String),
    /// `.*`, or `.+` with at least one character.
    Any {
        least: usize,
    },
    /// `[^.]*` or `[^.]+`: within one level of a routing key.
    Level {
        least: usize,
    },
}

/// An expression that matches whole texts: one of its alternatives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expression(pub(crate) Vec<Vec<Piece>>);

/// Reads an expression. `None` for an expression that is not translated.
pub(crate) fn parse(text: &str) -> Option<Expression> {
    // In RabbitMQ an empty expression matches only an empty text.
    let (inner, begins) = text.strip_prefix('^').map_or((text, false), |rest| (rest, true));
    let (inner, ends) = match inner.strip_suffix('$') {
        Some(rest) if !rest.ends_with('\\') => (rest, true),
        _ => (inner, false),
    };
    let group = inner.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    if group.is_none() && inner.contains('|') && (begins || ends) {
        // The anchors belong to the outer alternatives alone.
        return None;
    }
    let mut alternatives = Vec::new();
    for alternative in group.unwrap_or(inner).split('|') {
        let mut pieces = pieces(alternative)?;
        let any = Piece::Any { least: 0 };
        if !begins && !text.is_empty() && pieces.first() != Some(&any) {
            pieces.insert(0, any.clone());
        }
        if !ends && !text.is_empty() && pieces.last() != Some(&any) {
            pieces.push(any);
        }
        alternatives.push(pieces);
    }
    Some(Expression(alternatives))
}

fn pieces(text: &str) -> Option<Vec<Piece>> {
    let mut pieces = Vec::new();
    let mut literal = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let after = |n: usize| rest.get(n..).unwrap_or_default();
        let (piece, length) = if rest.starts_with(".*") {
            (Some(Piece::Any { least: 0 }), 2)
        } else if rest.starts_with(".+") {
            (Some(Piece::Any { least: 1 }), 2)
        } else if rest.starts_with("[^.]+") {
            (Some(Piece::Level { least: 1 }), 5)
        } else if rest.starts_with("[^.]*") {
            (Some(Piece::Level { least: 0 }), 5)
        } else if c == '\\' {
            let escaped = rest.chars().nth(1).filter(|c| !c.is_alphanumeric())?;
            literal.push(escaped);
            (None, 1 + escaped.len_utf8())
        } else if ".[](){}*+?|^$".contains(c) && !rest.starts_with("{username}") && !rest.starts_with("{client_id}") {
            return None;
        } else {
            literal.push(c);
            (None, c.len_utf8())
        };
        // Braces of a variable are part of the text.
        if c == '{' {
            let end = rest.find('}')?;
            literal.push_str(&rest[1..=end]);
            rest = after(end + 1);
            continue;
        }
        rest = after(length);
        if "*+?{".contains(rest.chars().next().unwrap_or(' '))
            && !rest.starts_with("{username}")
            && !rest.starts_with("{client_id}")
        {
            return None;
        }
        if let Some(piece) = piece {
            if !literal.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut literal)));
            }
            pieces.push(piece);
        }
    }
    if !literal.is_empty() {
        pieces.push(Piece::Text(literal));
    }
    Some(pieces)
}

impl Expression {
    /// Whether the whole text matches.
    pub(crate) fn matches(&self, text: &str) -> bool {
        self.0.iter().any(|pieces| matches(pieces, text))
    }

    /// Whether every text matches.
    pub(crate) fn is_everything(&self) -> bool {
        self.0.contains(&vec![Piece::Any { least: 0 }])
    }

    /// Names in our form: exact ones, and beginnings with `*` behind them. `None` when they cannot be said so.
    pub(crate) fn names(&self) -> Option<Vec<String>> {
        let name = |pieces: &Vec<Piece>| match pieces.as_slice() {
            [Piece::Text(text)] if !text.ends_with('*') => Some(text.clone()),
            [Piece::Text(text), Piece::Any { least: 0 }] => Some(format!("{text}*")),
            _ => None,
        };
        self.0.iter().map(name).collect()
    }

    /// Topic filters for an expression about routing keys, whose levels are separated by dots. None of them matches a
    /// topic that the expression does not match. `None` when there are no such filters.
    pub(crate) fn filters(&self) -> Option<Vec<String>> {
        self.0.iter().map(|pieces| filter(pieces)).collect()
    }

    /// As [`Self::filters`], for subscriptions: the filter `a/#` is the routing key `a.#`, which `^a\\..*` matches.
    pub(crate) fn subscriptions(&self) -> Option<Vec<String>> {
        let filters = self.filters()?;
        Some(
            filters
                .into_iter()
                .map(|filter| filter.strip_suffix("+/#").map_or(filter.clone(), |it| format!("{it}#")))
                .collect(),
        )
    }
}

fn matches(pieces: &[Piece], text: &str) -> bool {
    match pieces.split_first() {
        None => text.is_empty(),
        Some((Piece::Text(start), rest)) => text.strip_prefix(start.as_str()).is_some_and(|text| matches(rest, text)),
        Some((Piece::Any { least }, rest)) => ends(text, *least).any(|at| matches(rest, &text[at..])),
        Some((Piece::Level { least }, rest)) => {
            ends(text, *least).filter(|at| !text[..*at].contains('.')).any(|at| matches(rest, &text[at..]))
        }
    }
}

/// Positions at which a piece with this least length may end.
fn ends(text: &str, least: usize) -> impl Iterator<Item = usize> + '_ {
    text.char_indices().map(|(at, _)| at).chain([text.len()]).skip(least)
}

fn filter(pieces: &[Piece]) -> Option<String> {
    if pieces == [Piece::Any { least: 0 }] {
        return Some("#".to_owned());
    }
    let mut filter = String::new();
    for (index, piece) in pieces.iter().enumerate() {
        let is_last = index + 1 == pieces.len();
        let begins_level = filter.is_empty() || filter.ends_with('/');
        match piece {
            Piece::Text(text) => {
                // A routing key has dots where a topic has slashes; a filter must not gain wildcards.
                if text.contains(['/', '#', '+', '*']) {
                    return None;
                }
                filter.push_str(&text.replace('.', "/"));
            }
            Piece::Level { least: 1 } if begins_level => filter.push('+'),
            // All levels behind this one, and there is at least one.
            Piece::Any { .. } if is_last && begins_level && !filter.is_empty() => filter.push_str("+/#"),
            _ => return None,
        }
    }
    let whole = |level: &str| !level.contains('+') || level == "+";
    (!filter.is_empty() && filter.split('/').all(whole))
        .then(|| filter.replace("{username}", "${username}").replace("{client_id}", "${clientid}"))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn names_and_filters_never_match_more() {
        let names = |text: &str| parse(text).and_then(|it| it.names());
        assert_eq!(names("^dashboard$"), Some(vec!["dashboard".to_owned()]));
        assert_eq!(names("^dev-"), Some(vec!["dev-*".to_owned()]));
        assert_eq!(names("^(a|b)$"), Some(vec!["a".to_owned(), "b".to_owned()]));
        for text in ["dashboard", "^a|b$", "^a[0-9]$", "a.c", "^a+$", "^a?$", "^x\\d$"] {
            assert_eq!(names(text), None, "{text}");
        }
        let filters = |text: &str| parse(text).and_then(|it| it.filters()).unwrap_or_default();
        assert_eq!(filters(".*"), ["#"]);
        assert_eq!(filters("^sensors\\..*"), ["sensors/+/#"]);
        assert_eq!(filters("^a\\.[^.]+\\.b$"), ["a/+/b"]);
        assert_eq!(filters("^u\\.{username}\\..*$"), ["u/${username}/+/#"]);
        for text in ["^sensors.*", "sensors\\.", "^a[^.]+$", ""] {
            assert!(filters(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn expressions_match_as_whole_texts() {
        let matches = |text: &str, name: &str| parse(text).unwrap().matches(name);
        assert!(matches("^(amq\\.topic|mqtt-subscription-.*)$", "mqtt-subscription-c1qos1"));
        assert!(matches("amq", "x.amq.topic") && matches(".*", ""));
        assert!(!matches("^amq$", "amq.topic") && !matches("", "x") && !matches("^$", "x"));
        assert!(matches("", ""));
    }
}

//! Words and operators of EMQX's SQL which the parser does not know, as tokens which it knows: `topic =~ 'plant/#'`, `7 div 2`,
//! `7 mod 2`, `payload.list[1..3]`, and `AS pump.temp` for a field within an object.

use sqlparser::tokenizer::{Span, Token, TokenWithSpan, Word};

/// The operator between a topic and a filter, as a token.
pub(super) const MATCHES: &str = "=~";
/// Between the names of `AS pump.temp`, which are one name for the parser.
pub(super) const WITHIN: char = '\u{1f}';

/// Words behind which an expression begins, so that `div` and `mod` are names there.
const BEFORE_OPERANDS: [&str; 19] = [
    "select", "foreach", "do", "incase", "where", "and", "or", "not", "case", "when", "then", "else", "in", "between",
    "like", "ilike", "is", "by", "as",
];
/// Words that end an expression.
const BEHIND_OPERANDS: [&str; 9] = ["from", "where", "and", "or", "as", "do", "incase", "then", "group"];

fn is_one_of(token: &Token, words: &[&str]) -> bool {
    matches!(token, Token::Word(it) if it.quote_style.is_none() && words.iter().any(|word| it.value.eq_ignore_ascii_case(word)))
}

fn ends_operand(token: &Token) -> bool {
    match token {
        Token::Word(_) => !is_one_of(token, &BEFORE_OPERANDS),
        Token::Number(..) | Token::SingleQuotedString(_) | Token::RParen | Token::RBracket => true,
        _ => false,
    }
}

fn begins_operand(token: &Token) -> bool {
    match token {
        Token::Word(_) => !is_one_of(token, &BEHIND_OPERANDS),
        Token::Number(..) | Token::SingleQuotedString(_) | Token::LParen | Token::Minus | Token::Plus => true,
        _ => false,
    }
}

/// The operator that a word between two values is.
fn operator(word: &Token) -> Option<Token> {
    if is_one_of(word, &["div"]) {
        return Some(Token::DuckIntDiv);
    }
    is_one_of(word, &["mod"]).then_some(Token::Mod)
}

/// The number before the two points of a range. The tokenizer reads the first point as a part of it.
fn range_begin(token: &Token, next: Option<&Token>) -> Option<Token> {
    let Token::Number(text, is_long) = token else { return None };
    let begin = text.strip_suffix('.')?;
    let is_range =
        matches!(next, Some(Token::Period)) || matches!(next, Some(Token::Number(end, _)) if end.starts_with('.'));
    is_range.then(|| Token::Number(begin.to_owned(), *is_long))
}

/// The number behind them, if it was read with one of them.
fn range_end(token: &Token) -> Option<Token> {
    match token {
        Token::Number(text, is_long) => Some(Token::Number(text.trim_start_matches('.').to_owned(), *is_long)),
        _ => None,
    }
}

/// The tokens of a statement, without blanks and comments, as the parser knows them.
pub(super) fn known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut tokens = tokens.into_iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).peekable();
    let mut known: Vec<TokenWithSpan> = Vec::with_capacity(tokens.size_hint().0);
    while let Some(TokenWithSpan { token, span }) = tokens.next() {
        let next = tokens.peek().map(|next| &next.token);
        let last = known.last().map(|last| &last.token);
        let is_operator = last.is_some_and(ends_operand) && next.is_some_and(begins_operand);
        let token = if token == Token::Eq && next == Some(&Token::Tilde) {
            tokens.next();
            Token::CustomBinaryOperator(MATCHES.to_owned())
        } else if let Some(begin) = range_begin(&token, next) {
            let end = tokens.next().and_then(|end| range_end(&end.token));
            known.push(TokenWithSpan::new(begin, span));
            known.push(TokenWithSpan::new(Token::Colon, span));
            let Some(end) = end else { continue };
            end
        } else {
            operator(&token).filter(|_| is_operator).unwrap_or(token)
        };
        known.push(TokenWithSpan::new(token, span));
        join_alias(&mut known);
    }
    known
}

/// Joins the last three tokens where they are `a.b` behind AS.
fn join_alias(known: &mut Vec<TokenWithSpan>) {
    let [.., behind, first, point, second] = known.as_slice() else { return };
    let (Token::Word(name), Token::Period, Token::Word(field)) = (&first.token, &point.token, &second.token) else {
        return;
    };
    if !is_one_of(&behind.token, &["as"]) {
        return;
    }
    let value = format!("{}{WITHIN}{}", name.value, field.value);
    let span = Span::new(first.span.start, second.span.end);
    let word = Word { value, quote_style: Some('"'), keyword: sqlparser::keywords::Keyword::NoKeyword };
    known.truncate(known.len() - 3);
    known.push(TokenWithSpan::new(Token::Word(word), span));
}

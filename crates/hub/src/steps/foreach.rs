//! `FOREACH payload.sensors AS s DO s.name AS name INCASE s.value > 3 FROM 'plant/#'`, as EMQX users write it. The parser of
//! SQL does not know it, so the statement is taken apart here: an expression for the list, another for INCASE, and a SELECT of
//! the columns behind DO.

use sqlparser::tokenizer::{Span, Token, TokenWithSpan};

use super::{At, StepError};

/// The name of the element without AS.
const ITEM: &str = "item";

/// The parts of a statement.
#[derive(Debug)]
pub(super) struct Foreach {
    /// The list.
    pub(super) list: Vec<TokenWithSpan>,
    /// The name of the element.
    pub(super) item: String,
    /// Fields before the list, with the names that they have behind DO and INCASE.
    pub(super) fields: Vec<(String, Vec<TokenWithSpan>)>,
    /// The condition of an element.
    pub(super) condition: Option<Vec<TokenWithSpan>>,
    /// Whether there is a DO.
    pub(super) has_columns: bool,
    /// The same as a SELECT; of `*` without DO.
    pub(super) select: Vec<TokenWithSpan>,
}

/// Whether a token is this word, outside of quotes.
fn is_word(token: &TokenWithSpan, word: &str) -> bool {
    matches!(&token.token, Token::Word(it) if it.quote_style.is_none() && it.value.eq_ignore_ascii_case(word))
}

/// Whether a statement begins with FOREACH.
pub(super) fn is_foreach(tokens: &[TokenWithSpan]) -> bool {
    tokens.first().is_some_and(|first| is_word(first, "foreach"))
}

/// The place of the first of some words outside of brackets. Behind a point such a word is a field.
fn find(tokens: &[TokenWithSpan], words: &[&str]) -> Option<usize> {
    let mut open = 0_usize;
    let mut is_behind_point = false;
    tokens.iter().position(|token| {
        let is_field = std::mem::replace(&mut is_behind_point, token.token == Token::Period);
        match token.token {
            Token::LParen | Token::LBracket => open += 1,
            Token::RParen | Token::RBracket => open = open.saturating_sub(1),
            _ => {}
        }
        open == 0 && !is_field && words.iter().any(|word| is_word(token, word))
    })
}

/// The first comma outside of brackets.
fn find_comma(tokens: &[TokenWithSpan]) -> Option<usize> {
    let mut open = 0_usize;
    tokens.iter().position(|token| {
        match token.token {
            Token::LParen | Token::LBracket => open += 1,
            Token::RParen | Token::RBracket => open = open.saturating_sub(1),
            _ => {}
        }
        open == 0 && token.token == Token::Comma
    })
}

/// Takes the name behind AS off an expression.
fn name_of(tokens: &mut Vec<TokenWithSpan>) -> Result<Option<String>, StepError> {
    let Some(at) = find(tokens, &["as"]) else { return Ok(None) };
    match tokens.split_off(at).as_slice() {
        [_, TokenWithSpan { token: Token::Word(name), .. }] => Ok(Some(name.value.clone())),
        named => {
            let place = named.first().and_then(|token| At::of(token.span));
            Err(StepError::new("AS needs the name of an element").at(place))
        }
    }
}

impl Foreach {
    /// Takes a statement without blanks apart.
    ///
    /// # Errors
    /// When it has no FROM, or no name behind AS.
    pub(super) fn new(tokens: Vec<TokenWithSpan>) -> Result<Self, StepError> {
        let mut tokens: Vec<_> = tokens.into_iter().skip(1).collect();
        let from = find(&tokens, &["from"]).ok_or_else(|| {
            StepError::new("it has no FROM: name the topics, as in FOREACH payload.list FROM 'plant/#'")
        })?;
        let rest = tokens.split_off(from);
        let condition = find(&tokens, &["incase"]).map(|at| tokens.split_off(at).split_off(1));
        let columns = find(&tokens, &["do"]).map(|at| tokens.split_off(at).split_off(1));
        let mut fields = Vec::new();
        while let Some(comma) = find_comma(&tokens) {
            let rest = tokens.split_off(comma + 1);
            tokens.pop();
            let name = name_of(&mut tokens)?.unwrap_or_default();
            fields.push((name, std::mem::replace(&mut tokens, rest)));
        }
        let item = name_of(&mut tokens)?.unwrap_or_else(|| ITEM.to_owned());
        let made = |token: Token| TokenWithSpan::new(token, Span::empty());
        let has_columns = columns.is_some();
        let mut select = vec![made(Token::make_keyword("SELECT"))];
        select.extend(columns.unwrap_or_else(|| vec![made(Token::Mul)]));
        select.extend(rest);
        Ok(Self { list: tokens, item, fields, condition, has_columns, select })
    }
}

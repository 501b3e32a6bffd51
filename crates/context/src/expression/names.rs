//! Finds unknown names in an expression. An expression with one would fail for every node, without any notice.

use std::collections::BTreeSet;

use cel::common::ast::{EntryExpr, Expr, LiteralValue};
use cel::{ExecutionError, IdedExpr};

use super::{ExpressionError, Variables, compile, guarded};

/// Names other than the variables of an expression's own comprehensions.
#[derive(Default)]
struct Names<'a> {
    /// The function of the host.
    host: Option<&'static str>,
    /// The first argument of each of its calls, if that is a text in quotes.
    subjects: Vec<Option<String>>,
    bound: Vec<&'a str>,
    values: BTreeSet<&'a str>,
    /// Functions, and whether each is called as a method.
    functions: BTreeSet<(&'a str, bool)>,
}

impl<'a> Names<'a> {
    fn add(&mut self, expression: &'a IdedExpr) {
        match &expression.expr {
            Expr::Call(call) => {
                if call.target.is_none() && self.host == Some(call.func_name.as_str()) {
                    self.subjects.push(call.args.first().and_then(text_of));
                } else if call.func_name.starts_with(|first: char| first.is_ascii_alphabetic()) {
                    self.functions.insert((&call.func_name, call.target.is_some()));
                }
                call.target.iter().for_each(|target| self.add(target));
                call.args.iter().for_each(|argument| self.add(argument));
            }
            Expr::Comprehension(comprehension) => {
                self.add(&comprehension.iter_range);
                self.add(&comprehension.accu_init);
                let outside = self.bound.len();
                self.bound.extend([comprehension.iter_var.as_str(), comprehension.accu_var.as_str()]);
                self.bound.extend(comprehension.iter_var2.as_deref());
                for body in [&comprehension.loop_cond, &comprehension.loop_step, &comprehension.result] {
                    self.add(body);
                }
                self.bound.truncate(outside);
            }
            Expr::Ident(name) if !name.starts_with('@') && !self.bound.contains(&name.as_str()) => {
                self.values.insert(name);
            }
            Expr::List(list) => list.elements.iter().for_each(|element| self.add(element)),
            Expr::Map(map) => map.entries.iter().for_each(|entry| self.add_entry(&entry.expr)),
            Expr::Select(select) => self.add(&select.operand),
            Expr::Struct(structure) => structure.entries.iter().for_each(|entry| self.add_entry(&entry.expr)),
            Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => {}
        }
    }

    fn add_entry(&mut self, entry: &'a EntryExpr) {
        match entry {
            EntryExpr::StructField(field) => self.add(&field.value),
            EntryExpr::MapEntry(entry) => {
                self.add(&entry.key);
                self.add(&entry.value);
            }
        }
    }
}

/// The text of a constant in quotes.
fn text_of(expression: &IdedExpr) -> Option<String> {
    match &expression.expr {
        Expr::Literal(LiteralValue::String(text)) => Some(text.inner().to_string()),
        _ => None,
    }
}

/// Checks that every name of an expression over `variables` is known. Returns the first argument of each call of the
/// host's function.
///
/// # Errors
/// The first unknown name, or a call of the host's function without a text in quotes.
pub(super) fn check(
    expression: &IdedExpr,
    variables: &[&'static str],
    host: Option<&'static str>,
) -> Result<Vec<String>, ExpressionError> {
    let variable = variables.last().copied().unwrap_or_default();
    let mut names = Names { host, ..Names::default() };
    names.add(expression);
    for name in names.values {
        if !variables.contains(&name) && is_unknown(name) {
            return Err(ExpressionError::Name { name: name.to_owned(), variable });
        }
    }
    for (name, on_something) in names.functions {
        let call = if on_something { format!("[].{name}()") } else { format!("{name}()") };
        if is_unknown(&call) {
            return Err(ExpressionError::Function(name.to_owned()));
        }
    }
    let subjects: Option<Vec<String>> = names.subjects.into_iter().collect();
    subjects.ok_or_else(|| ExpressionError::Subject(host.unwrap_or_default().to_owned()))
}

/// Whether an expression fails for an unknown name, and not for its types or arguments.
fn is_unknown(text: &str) -> bool {
    let Ok(program) = compile(text) else { return false };
    let nothing = Variables::of("_", &serde_json::Value::Null);
    let outcome = guarded(|| program.execute(&nothing.0).map(drop), ExpressionError::Failed);
    matches!(outcome, Ok(Err(ExecutionError::UndeclaredReference(_))))
}

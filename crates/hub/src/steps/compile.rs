//! From an expression of SQL to the nodes that are evaluated for each message.

use std::sync::Arc;

use serde_json::Value;
use sqlparser::ast::{
    AccessExpr, Array, BinaryOperator, CastKind, CeilFloorKind, DataType, Expr, Function as Call, FunctionArg,
    FunctionArgExpr, FunctionArguments, Ident, Spanned, Subscript, TrimWhereField, UnaryOperator, Value as Literal,
};
use tidegate_client::TopicFilterBuf;
use tidegate_units::suggestion::nearest;

use super::aggregate::{Aggregate, Aggregates};
use super::aliases::Aliases;
use super::cel::LOOKUP;
use super::dialect::MATCHES;
use super::functions::Function;
use super::node::{Binary, Lookup, Node, Step};
use super::regular::{Regular, is_name};
use super::tables::Tables;
use super::unit::Unit;
use super::{At, StepError};
use crate::message::FIELDS;

/// Deepest nesting of an expression; a sum of this number of terms is as deep.
const MAX_DEPTH: usize = 100;

fn refuse(expr: &Expr, said: impl Into<String>) -> StepError {
    StepError::new(said).at(At::of(expr.span()))
}

/// The position of an expression.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scope<'a> {
    /// The tables of `lookup`.
    tables: &'a Tables,
    /// The name of the element, in DO and INCASE of a FOREACH.
    item: Option<&'a str>,
    /// Where aggregates are noted, in the SELECT of a window.
    aggregates: Option<&'a Aggregates>,
    /// The columns that may be named.
    aliases: Option<&'a Aliases>,
    depth: usize,
}

impl<'a> Scope<'a> {
    /// That of one message.
    pub(super) fn new(tables: &'a Tables) -> Self {
        Self { tables, item: None, aggregates: None, aliases: None, depth: 0 }
    }

    /// That of DO and INCASE, with the name of the element.
    pub(super) fn of_item(self, item: &'a str) -> Self {
        Self { item: Some(item), ..self }
    }

    /// That of the SELECT of a window.
    pub(super) fn of_window(self, aggregates: &'a Aggregates) -> Self {
        Self { aggregates: Some(aggregates), ..self }
    }

    /// Whether there is an element.
    pub(super) fn has_item(self) -> bool {
        self.item.is_some()
    }

    /// That of expressions which may name columns.
    pub(super) fn naming(self, aliases: &'a Aliases) -> Self {
        Self { aliases: Some(aliases), ..self }
    }

    /// That of a message in it.
    pub(super) fn of_message(self) -> Self {
        Self::new(self.tables)
    }

    fn below(self) -> Self {
        Self { depth: self.depth + 1, ..self }
    }
}

/// Makes an expression ready.
pub(super) fn compile(expr: &Expr, scope: Scope<'_>) -> Result<Node, StepError> {
    if scope.depth > MAX_DEPTH {
        return Err(StepError::new(format!("it is nested more than {MAX_DEPTH} deep")));
    }
    if let Some(aliases) = scope.aliases {
        aliases.note_depth(scope.depth);
    }
    let inner = |expr: &Expr| compile(expr, scope.below());
    let boxed = |expr: &Expr| compile(expr, scope.below()).map(Box::new);
    Ok(match expr {
        Expr::Nested(nested) => return inner(nested),
        Expr::Identifier(name) => return field(expr, name, scope),
        Expr::CompoundIdentifier(names) => {
            let Some((first, rest)) = names.split_first() else { return Err(refuse(expr, "it has no name")) };
            let steps = rest.iter().map(|name| Step::Field(name.value.clone())).collect();
            Node::Path(Box::new(field(expr, first, scope)?), steps)
        }
        Expr::CompoundFieldAccess { root, access_chain } => {
            let steps: Result<Vec<_>, _> = access_chain.iter().map(|access| step(expr, access, scope)).collect();
            Node::Path(boxed(root)?, steps?)
        }
        Expr::Value(value) => Node::Literal(literal(expr, &value.value)?),
        Expr::UnaryOp { op, expr: operand } => match op {
            UnaryOperator::Not => Node::Not(boxed(operand)?),
            UnaryOperator::Minus => Node::Minus(boxed(operand)?),
            UnaryOperator::Plus => return inner(operand),
            _ => return Err(refuse(expr, format!("the operator `{op}` is not understood"))),
        },
        Expr::Array(Array { elem, .. }) => Node::Array(elem.iter().map(inner).collect::<Result<_, _>>()?),
        Expr::BinaryOp { left, op: BinaryOperator::Custom(op), right } if op == MATCHES => {
            Node::Matches(boxed(left)?, filter(right)?)
        }
        Expr::BinaryOp { left, op, right } => Node::Binary(binary(expr, op)?, boxed(left)?, boxed(right)?),
        Expr::IsNull(operand) => Node::IsNull(boxed(operand)?),
        Expr::IsNotNull(operand) => Node::Not(Box::new(Node::IsNull(boxed(operand)?))),
        Expr::IsTrue(operand) => Node::Is(true, boxed(operand)?),
        Expr::IsFalse(operand) => Node::Is(false, boxed(operand)?),
        Expr::IsNotTrue(operand) => Node::Not(Box::new(Node::Is(true, boxed(operand)?))),
        Expr::IsNotFalse(operand) => Node::Not(Box::new(Node::Is(false, boxed(operand)?))),
        Expr::InList { expr: operand, list, negated } => {
            let list: Result<Vec<_>, _> = list.iter().map(inner).collect();
            negate(*negated, Node::In(boxed(operand)?, list?))
        }
        Expr::Between { expr: operand, negated, low, high } => {
            negate(*negated, Node::Between(boxed(operand)?, boxed(low)?, boxed(high)?))
        }
        Expr::Like { negated, any: false, expr: operand, pattern, escape_char: None } => {
            negate(*negated, Node::Like(boxed(operand)?, boxed(pattern)?, false))
        }
        Expr::ILike { negated, any: false, expr: operand, pattern, escape_char: None } => {
            negate(*negated, Node::Like(boxed(operand)?, boxed(pattern)?, true))
        }
        Expr::Case { operand, conditions, else_result, .. } => {
            let when = |case: &sqlparser::ast::CaseWhen| Ok((inner(&case.condition)?, inner(&case.result)?));
            let cases: Result<Vec<_>, StepError> = conditions.iter().map(when).collect();
            Node::Case {
                operand: operand.as_deref().map(boxed).transpose()?,
                cases: cases?,
                otherwise: else_result.as_deref().map(boxed).transpose()?,
            }
        }
        _ => return called(expr, scope),
    })
}

/// Functions, including functions with their own syntax in SQL.
fn called(expr: &Expr, scope: Scope<'_>) -> Result<Node, StepError> {
    let inner = |expr: &Expr| compile(expr, scope.below());
    Ok(match expr {
        Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr: operand, data_type, .. } => {
            Node::Call(cast(expr, data_type)?, vec![inner(operand)?])
        }
        Expr::Ceil {
            expr: operand,
            field: CeilFloorKind::DateTimeField(sqlparser::ast::DateTimeField::NoDateTime),
        } => Node::Call(Function::Ceil, vec![inner(operand)?]),
        Expr::Floor {
            expr: operand,
            field: CeilFloorKind::DateTimeField(sqlparser::ast::DateTimeField::NoDateTime),
        } => Node::Call(Function::Floor, vec![inner(operand)?]),
        Expr::Trim { expr: operand, trim_where, trim_what: None, trim_characters: None } => {
            let function = match trim_where {
                None | Some(TrimWhereField::Both) => Function::Trim,
                Some(TrimWhereField::Leading) => Function::Ltrim,
                Some(TrimWhereField::Trailing) => Function::Rtrim,
            };
            Node::Call(function, vec![inner(operand)?])
        }
        Expr::Substring { expr: operand, substring_from, substring_for, .. } => {
            let given = [Some(operand), substring_from.as_ref(), substring_for.as_ref()];
            let arguments: Result<Vec<_>, _> = given.into_iter().flatten().map(|one| inner(one)).collect();
            let arguments = arguments?;
            Function::Substr.check(arguments.len()).map_err(|said| refuse(expr, said.to_string()))?;
            Node::Call(Function::Substr, arguments)
        }
        Expr::Function(call) => return function(expr, call, scope),
        _ => return Err(refuse(expr, format!("`{expr}` is not understood"))),
    })
}

fn negate(negated: bool, node: Node) -> Node {
    if negated { Node::Not(Box::new(node)) } else { node }
}

/// The filter of `topic =~ 'FILTER'`.
fn filter(expr: &Expr) -> Result<TopicFilterBuf, StepError> {
    let Expr::Value(value) = expr else { return Err(refuse(expr, "`=~` needs a topic filter in single quotes")) };
    let Literal::SingleQuotedString(text) = &value.value else {
        return Err(refuse(expr, "`=~` needs a topic filter in single quotes"));
    };
    TopicFilterBuf::new(text.as_str()).map_err(|error| refuse(expr, format!("{text:?}: {error}")))
}

/// A column of the SELECT.
fn alias(expr: &Expr, name: &str, scope: Scope<'_>) -> Result<Option<Node>, StepError> {
    let Some((aliases, alias)) = scope.aliases.and_then(|aliases| Some((aliases, aliases.get(name)?))) else {
        return Ok(None);
    };
    let depth = scope.depth + alias.depth;
    if depth > MAX_DEPTH {
        return Err(refuse(
            expr,
            format!("`{name}` is nested more than {MAX_DEPTH} deep with the columns that it names"),
        ));
    }
    aliases.note_depth(depth);
    if alias.is_of_window {
        if scope.aggregates.is_none() {
            let said = format!("`{name}` is of the messages of a window: use it behind SELECT, not in an aggregate");
            return Err(refuse(expr, said));
        }
        aliases.note_window();
    }
    Ok(Some(Node::Alias(alias)))
}

/// A name without a path.
fn field(expr: &Expr, ident: &Ident, scope: Scope<'_>) -> Result<Node, StepError> {
    let name = ident.value.as_str();
    if let Some(column) = alias(expr, name, scope)? {
        return Ok(column);
    }
    if scope.item == Some(name) {
        return Ok(Node::Item);
    }
    if name == "payload" {
        return Ok(Node::Payload);
    }
    let window = match name {
        "window_start" => Some(Node::WindowStart),
        "window_end" => Some(Node::WindowEnd),
        _ => None,
    };
    if let Some(node) = window.filter(|_| scope.aggregates.is_some()) {
        if let Some(aliases) = scope.aliases {
            aliases.note_window();
        }
        return Ok(node);
    }
    FIELDS.iter().find(|field| **field == name).map(|field| Node::Field(field)).ok_or_else(|| {
        let names = FIELDS.join(", ");
        let near = nearest(name, FIELDS.iter().copied().chain(scope.item));
        let hint = match near {
            _ if ident.quote_style == Some('"') => format!("a text has single quotes, as in '{name}'"),
            _ if ["node", "event"].contains(&name) => "a message does not carry it".to_owned(),
            Some(near @ "payload") => format!("did you mean `{near}`?"),
            Some(near) => format!("did you mean `{near}`? For a field of the payload write `payload.{name}`"),
            None => format!("for a field of the payload write `payload.{name}`"),
        };
        refuse(expr, format!("there is no `{name}`: {hint}; there are {names}"))
    })
}

fn step(expr: &Expr, access: &AccessExpr, scope: Scope<'_>) -> Result<Step, StepError> {
    match access {
        AccessExpr::Dot(Expr::Identifier(name)) => Ok(Step::Field(name.value.clone())),
        AccessExpr::Subscript(Subscript::Index { index }) => Ok(Step::Index(compile(index, scope.below())?)),
        AccessExpr::Subscript(Subscript::Slice { lower_bound: Some(from), upper_bound: Some(to), stride: None }) => {
            Ok(Step::Range(compile(from, scope.below())?, compile(to, scope.below())?))
        }
        AccessExpr::Dot(_) | AccessExpr::Subscript(Subscript::Slice { .. }) => {
            Err(refuse(expr, "after a name come `.field`, `[number]` and `[number..number]` alone"))
        }
    }
}

fn literal(expr: &Expr, value: &Literal) -> Result<Value, StepError> {
    match value {
        Literal::Number(text, _) => number(text).ok_or_else(|| refuse(expr, format!("`{text}` is no number"))),
        Literal::SingleQuotedString(text) | Literal::DoubleQuotedString(text) => Ok(Value::String(text.clone())),
        Literal::Boolean(truth) => Ok(Value::Bool(*truth)),
        Literal::Null => Ok(Value::Null),
        other => Err(refuse(expr, format!("`{other}` is not understood"))),
    }
}

fn number(text: &str) -> Option<Value> {
    let whole = text.parse::<i64>().ok().map(Value::from);
    whole.or_else(|| text.parse::<f64>().ok().and_then(serde_json::Number::from_f64).map(Value::Number))
}

fn binary(expr: &Expr, op: &BinaryOperator) -> Result<Binary, StepError> {
    Ok(match op {
        BinaryOperator::Plus => Binary::Plus,
        BinaryOperator::Minus => Binary::Minus,
        BinaryOperator::Multiply => Binary::Multiply,
        BinaryOperator::Divide => Binary::Divide,
        BinaryOperator::DuckIntegerDivide => Binary::DivideWhole,
        BinaryOperator::Modulo => Binary::Modulo,
        BinaryOperator::StringConcat => Binary::Concat,
        BinaryOperator::Eq => Binary::Equal,
        BinaryOperator::NotEq => Binary::NotEqual,
        BinaryOperator::Lt => Binary::Less,
        BinaryOperator::LtEq => Binary::LessOrEqual,
        BinaryOperator::Gt => Binary::Greater,
        BinaryOperator::GtEq => Binary::GreaterOrEqual,
        BinaryOperator::And => Binary::And,
        BinaryOperator::Or => Binary::Or,
        other => return Err(refuse(expr, format!("the operator `{other}` is not understood"))),
    })
}

fn cast(expr: &Expr, to: &DataType) -> Result<Function, StepError> {
    Ok(match to.to_string().to_lowercase().as_str() {
        "int" | "integer" | "bigint" => Function::Int,
        "float" | "double" | "double precision" | "real" => Function::Float,
        "text" | "varchar" | "string" => Function::Str,
        "bool" | "boolean" => Function::Bool,
        other => return Err(refuse(expr, format!("a value cannot be made `{other}`: int, float, text or boolean"))),
    })
}

fn function(expr: &Expr, call: &Call, scope: Scope<'_>) -> Result<Node, StepError> {
    let name = call.name.to_string().to_lowercase();
    // `max(a, b)` is of one message, and `max(a)` of a window.
    let is_of_message = Function::of_name(&name).is_some() && operands_of(call).len() > 1;
    if let Some(found) = Aggregate::of_name(&name).filter(|_| !is_of_message) {
        return aggregate(expr, &name, found, call, scope);
    }
    if name == LOOKUP {
        return lookup(expr, arguments(expr, &name, call, scope)?, scope);
    }
    if is_name(&name) {
        return regex(expr, &name, arguments(expr, &name, call, scope)?);
    }
    let Some(function) = Function::of_name(&name) else {
        let near = || Function::nearest(&name).map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        let hint = instead_of(&name).map_or_else(near, |instead| format!(": {instead}"));
        return Err(refuse(expr, format!("there is no function `{name}`{hint}")));
    };
    let arguments = arguments(expr, &name, call, scope)?;
    function.check(arguments.len()).map_err(|said| refuse(expr, said.to_string()))?;
    // A unit in quotes is wrong for each message, or for none.
    if let Some(Node::Literal(unit)) = function.unit_place().and_then(|place| arguments.get(place)) {
        Unit::of(unit).map_err(|error| refuse(expr, error.to_string()))?;
    }
    Ok(Node::Call(function, arguments))
}

/// The place of a function of EMQX that is not one here.
fn instead_of(name: &str) -> Option<&'static str> {
    Some(match name {
        "jq" => "write a path such as `payload.list[1].temp`, FOREACH for each element of a list, or CEL in `set`",
        "schema_decode" | "schema_encode" | "schema_check" => {
            "the key `schema` of the pipeline decodes and checks payloads"
        }
        "kv_store_get" | "proc_dict_get" => "`lookup` reads a row of the key `tables`",
        _ => return None,
    })
}

/// A function over the messages of a window.
fn aggregate(expr: &Expr, name: &str, aggregate: Aggregate, call: &Call, scope: Scope<'_>) -> Result<Node, StepError> {
    let Some(aggregates) = scope.aggregates else {
        let said =
            format!("`{name}` is of the messages of a window: set `every`, and use it behind SELECT, not in itself");
        return Err(refuse(expr, said));
    };
    if let Some(aliases) = scope.aliases {
        aliases.note_window();
    }
    let of_message = Scope { aggregates: None, ..scope };
    let counts_all = matches!(operands_of(call), [FunctionArg::Unnamed(FunctionArgExpr::Wildcard)]);
    if counts_all && aggregate == Aggregate::Count && !has_window(call) {
        return Ok(Node::Aggregated(aggregates.add(aggregate, Node::Literal(Value::Bool(true)))));
    }
    let mut operands = arguments(expr, name, call, of_message)?;
    match (operands.pop(), operands.is_empty()) {
        (Some(operand), true) => Ok(Node::Aggregated(aggregates.add(aggregate, operand))),
        _ => Err(refuse(expr, format!("`{name}` takes one value"))),
    }
}

/// The arguments of a function.
fn operands_of(call: &Call) -> &[FunctionArg] {
    match &call.args {
        FunctionArguments::List(list) => &list.args,
        FunctionArguments::None | FunctionArguments::Subquery(_) => &[],
    }
}

/// Whether it has windows as SQL writes them, which are not understood.
fn has_window(call: &Call) -> bool {
    call.over.is_some() || call.filter.is_some()
}

/// The values that a function is given.
fn arguments(expr: &Expr, name: &str, call: &Call, scope: Scope<'_>) -> Result<Vec<Node>, StepError> {
    if has_window(call) {
        return Err(refuse(expr, "OVER and FILTER are not understood: set `every` for windows"));
    }
    let wrong = || refuse(expr, format!("`{name}` takes values alone"));
    let argument = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => compile(expr, scope.below()),
        _ => Err(wrong()),
    };
    match &call.args {
        FunctionArguments::None => Ok(Vec::new()),
        FunctionArguments::List(list) if list.duplicate_treatment.is_none() && list.clauses.is_empty() => {
            list.args.iter().map(argument).collect()
        }
        _ => Err(wrong()),
    }
}

/// `lookup('TABLE', KEY)` and `lookup('TABLE', KEY, FIELD)`.
fn lookup(expr: &Expr, arguments: Vec<Node>, scope: Scope<'_>) -> Result<Node, StepError> {
    let mut arguments = arguments.into_iter();
    let (table, key, field, rest) = (arguments.next(), arguments.next(), arguments.next(), arguments.next());
    let (Some(Node::Literal(Value::String(name))), Some(key), None) = (table, key, rest) else {
        return Err(refuse(expr, "`lookup` takes a table in quotes, a key, and the name of a field if one is wanted"));
    };
    let table = scope.tables.get(&name).map_err(|error| refuse(expr, error.to_string()))?;
    Ok(Node::Lookup(Box::new(Lookup { table: Arc::clone(table), key, field })))
}

/// A function with a regular expression, which is read once.
fn regex(expr: &Expr, name: &str, mut arguments: Vec<Node>) -> Result<Node, StepError> {
    let rest = arguments.split_off(arguments.len().min(1));
    let text = |node: &Node| match node {
        Node::Literal(Value::String(text)) => Some(text.clone()),
        _ => None,
    };
    let texts: Vec<Option<String>> = rest.iter().map(text).collect();
    let texts: Vec<Option<&str>> = texts.iter().map(Option::as_deref).collect();
    let regular = Regular::new(name, &texts).map_err(|error| refuse(expr, error.to_string()))?;
    let Some(operand) = arguments.pop() else { return Err(refuse(expr, format!("`{name}` needs a text"))) };
    Ok(Node::Regex(Box::new(regular), Box::new(operand)))
}

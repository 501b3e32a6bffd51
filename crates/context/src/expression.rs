//! Expressions of an operator (CEL), with a bounded cost, and without a way to end a thread.
//!
//! An expression comes from a file of the operator, its input from nodes. So its size is limited when it is read, and
//! the size of a context before evaluation. A comprehension must not be nested in another one, so the work is at most
//! the size of the expression times that of the context.

mod names;
mod parts;

use std::sync::{Arc, LazyLock};

use cel::common::ast::{EntryExpr, Expr};
use cel::extractors::Arguments;
use cel::objects::{Key, Map};
use cel::{Context, Env, ExecutionError, IdedExpr, Program, Value};
use tidegate_panics::contain;

use crate::expression_limits::{
    ExpressionError, MAX_COMPREHENSIONS, MAX_EXPRESSION_BYTES, MAX_EXPRESSION_DEPTH, MAX_EXPRESSION_PARTS,
};

static ENVIRONMENT: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Env::stdlib()));

/// An expression that was read and is within its limits.
#[derive(Debug)]
pub struct Expression {
    program: Program,
    /// The first argument of each call of the host's function.
    subjects: Vec<String>,
}

/// A function of the host: from its arguments to its result. It answers at once, from memory.
pub type HostFunction = dyn Fn(&[serde_json::Value]) -> Result<serde_json::Value, HostError> + Send + Sync;

/// Why a function of the host fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct HostError(pub String);

/// The variables of an expression.
pub struct Variables(Context<'static, 'static>);

impl std::fmt::Debug for Variables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Variables")
    }
}

impl Variables {
    /// One variable with a value of JSON.
    pub fn of(name: &str, value: &serde_json::Value) -> Self {
        let mut context = Context::with_env(Arc::clone(&ENVIRONMENT));
        context.add_variable_from_value(name, value_of(value));
        Self(context)
    }

    /// Several variables, each with a value of JSON.
    pub fn of_all<'a>(variables: impl IntoIterator<Item = (&'a str, &'a serde_json::Value)>) -> Self {
        let mut context = Context::with_env(Arc::clone(&ENVIRONMENT));
        for (name, value) in variables {
            context.add_variable_from_value(name, value_of(value));
        }
        Self(context)
    }

    /// The same variables, with a function of the host for expressions of [`Expression::calling`].
    ///
    /// # Errors
    /// When CEL has a function of this name.
    pub fn with_function(mut self, name: &str, function: Arc<HostFunction>) -> Result<Self, HostError> {
        let call = move |Arguments(arguments): Arguments| {
            let failed = |error: &HostError| ExecutionError::function_error("the call", &error.0);
            let no_json = || HostError("an argument is nothing that JSON has".to_owned());
            let arguments: Option<Vec<_>> = arguments.iter().map(json_of).collect();
            let result = arguments.ok_or_else(no_json).and_then(|arguments| function(&arguments));
            result.map(|result| value_of(&result)).map_err(|error| failed(&error))
        };
        let added = self.0.add_function(name, call);
        added.map_err(|error| HostError(format!("{error:?}")))?;
        Ok(self)
    }
}

impl Expression {
    /// Reads an expression that looks at one variable.
    ///
    /// # Errors
    /// When it is not CEL, is beyond a limit, or has unknown names.
    pub fn new(text: &str, variable: &'static str) -> Result<Self, ExpressionError> {
        Self::over(text, &[variable])
    }

    /// Reads an expression that looks at several variables. The last one is named where a name goes by nothing, as
    /// that which it may be a field of.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn over(text: &str, variables: &[&'static str]) -> Result<Self, ExpressionError> {
        Self::calling(text, variables, None)
    }

    /// The same, for an expression that may call a function of the host. The first argument of each call has to be a text in
    /// quotes, so that [`Self::subjects`] has them before there is any input.
    ///
    /// # Errors
    /// As [`Self::new`], and when the first argument of such a call is no text in quotes.
    pub fn calling(
        text: &str,
        variables: &[&'static str],
        function: Option<&'static str>,
    ) -> Result<Self, ExpressionError> {
        if text.len() > MAX_EXPRESSION_BYTES {
            return Err(ExpressionError::TooLarge("more than 2048 bytes"));
        }
        if depth(text) > MAX_EXPRESSION_DEPTH {
            return Err(ExpressionError::TooLarge("brackets or signs are nested more than 48 deep"));
        }
        let program = compile(text)?;
        let mut size = Size::default();
        size.add(program.expression(), 0);
        match size {
            Size { deepest, .. } if deepest > MAX_EXPRESSION_DEPTH => {
                Err(ExpressionError::TooLarge("operators are nested more than 48 deep"))
            }
            Size { nested: true, .. } => Err(ExpressionError::TooLarge("a comprehension within another one's body")),
            Size { comprehensions, .. } if comprehensions > MAX_COMPREHENSIONS => {
                Err(ExpressionError::TooLarge("more than 4 comprehensions"))
            }
            Size { parts, .. } if parts > MAX_EXPRESSION_PARTS => Err(ExpressionError::TooLarge("more than 512 parts")),
            _ => {
                let subjects = names::check(program.expression(), variables, function)?;
                Ok(Self { program, subjects })
            }
        }
    }

    /// Reads a condition that a node's context fulfils or not.
    ///
    /// # Errors
    /// As [`Self::new`], and when it gives no truth value for a context without fields.
    pub fn condition(text: &str) -> Result<Self, ExpressionError> {
        let expression = Self::new(text, "context")?;
        let empty = Variables::of("context", &serde_json::Value::Object(serde_json::Map::new()));
        match expression.truth(&empty) {
            Err(error @ ExpressionError::Type { .. }) => Err(error),
            // Most fail, since these variables are empty.
            Ok(_) | Err(_) => Ok(expression),
        }
    }

    /// Whether the expression is true for the variables.
    ///
    /// # Errors
    /// When the expression fails (a field that is not there, types that do not fit) or gives no truth value.
    pub fn truth(&self, variables: &Variables) -> Result<bool, ExpressionError> {
        match self.value(variables)? {
            Value::Bool(truth) => Ok(truth),
            other => Err(wrong_type(&other, "true or false")),
        }
    }

    /// A number for the variables: at least 0 and finite.
    ///
    /// # Errors
    /// When the expression fails, or its result is not a finite number.
    pub fn number(&self, variables: &Variables) -> Result<f64, ExpressionError> {
        let value = self.value(variables)?;
        let number = match value {
            Value::Float(number) => Some(number),
            Value::Int(number) => u64::try_from(number).ok().map(crate::real::real),
            Value::UInt(number) => Some(crate::real::real(number)),
            _ => None,
        };
        number
            .filter(|number| number.is_finite() && *number >= 0.0)
            .ok_or_else(|| wrong_type(&value, "a number of at least 0"))
    }

    /// A value of JSON for the variables.
    ///
    /// # Errors
    /// When the expression fails or gives something that JSON has no word for.
    pub fn json(&self, variables: &Variables) -> Result<serde_json::Value, ExpressionError> {
        let value = self.value(variables)?;
        json_of(&value).ok_or_else(|| wrong_type(&value, "a value that JSON has"))
    }

    /// The first argument of each call of the host's function.
    pub fn subjects(&self) -> &[String] {
        &self.subjects
    }

    /// The parts of a variable that it looks at: each a path of fields, and an empty one for the whole value. None where it
    /// does not look at the variable.
    pub fn parts_of(&self, variable: &str) -> Vec<Vec<String>> {
        parts::PathFinder::of(self.program.expression(), variable)
    }

    fn value(&self, variables: &Variables) -> Result<Value, ExpressionError> {
        let execute = || self.program.execute(&variables.0);
        guarded(execute, ExpressionError::Failed)?.map_err(|error| failure(&error))
    }
}

/// Why an expression has no result. Whole numbers of JSON are of another type than others, which few people expect.
fn failure(error: &ExecutionError) -> ExpressionError {
    let is_number = |value: &Value| matches!(value, Value::Int(_) | Value::UInt(_) | Value::Float(_));
    let hint = match error {
        ExecutionError::UnsupportedBinaryOperator(_, left, right) if is_number(left) && is_number(right) => {
            "; convert numbers of different types: `double(...)`"
        }
        _ => "",
    };
    ExpressionError::Failed(brief(&error.to_string()) + hint)
}

/// Stack for reading an expression: the parser takes up to 50 KiB of it for each level of nesting.
const PARSER_STACK_BYTES: usize = 16 * 1024 * 1024;

/// Reads an expression on a thread with a stack that is large enough, whatever the caller's is.
fn compile(text: &str) -> Result<Program, ExpressionError> {
    let wrong = ExpressionError::Syntax;
    let read = || guarded(|| ENVIRONMENT.compile(text).map_err(|error| wrong(error.to_string())), wrong);
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(PARSER_STACK_BYTES).spawn_scoped(scope, read);
        let thread = thread.map_err(|error| wrong(format!("no thread could be started to read it: {error}")))?;
        thread.join().map_err(|_| wrong("the parser broke off".to_owned()))??
    })
}

/// The evaluating library is not ours: if it panics, the expression fails with the error that `wrong` makes, and the
/// service continues.
fn guarded<T>(work: impl FnOnce() -> T, wrong: fn(String) -> ExpressionError) -> Result<T, ExpressionError> {
    contain(work).map_err(|error| wrong(brief(&format!("the evaluation broke off: {error}"))))
}

fn wrong_type(got: &Value, wanted: &'static str) -> ExpressionError {
    ExpressionError::Type { got: brief(&format!("{got:?}")), wanted }
}

/// Errors repeat values of nodes; a line of a log need not have all of them.
fn brief(text: &str) -> String {
    text.chars().take(160).collect()
}

/// How deep the parser will have to go, at most.
fn depth(text: &str) -> usize {
    let (mut open, mut deepest, mut signs) = (0_usize, 0, 0);
    for character in text.chars() {
        match character {
            '(' | '[' | '{' => open += 1,
            ')' | ']' | '}' => open = open.saturating_sub(1),
            '!' | '-' | '?' => signs += 1,
            _ => {}
        }
        deepest = deepest.max(open);
    }
    deepest.max(signs)
}

/// The size of an expression.
#[derive(Debug, Default)]
struct Size {
    parts: usize,
    comprehensions: usize,
    nested: bool,
    depth: usize,
    deepest: usize,
}

impl Size {
    fn add(&mut self, expression: &IdedExpr, loops: usize) {
        self.parts += 1;
        self.depth += 1;
        self.deepest = self.deepest.max(self.depth);
        match &expression.expr {
            Expr::Call(call) => {
                call.target.iter().for_each(|target| self.add(target, loops));
                call.args.iter().for_each(|argument| self.add(argument, loops));
            }
            Expr::Comprehension(comprehension) => {
                self.comprehensions += 1;
                self.nested |= loops > 0;
                self.add(&comprehension.iter_range, loops);
                self.add(&comprehension.accu_init, loops);
                for body in [&comprehension.loop_cond, &comprehension.loop_step, &comprehension.result] {
                    self.add(body, loops + 1);
                }
            }
            Expr::List(list) => list.elements.iter().for_each(|element| self.add(element, loops)),
            Expr::Map(map) => map.entries.iter().for_each(|entry| self.add_entry(&entry.expr, loops)),
            Expr::Select(select) => self.add(&select.operand, loops),
            Expr::Struct(structure) => structure.entries.iter().for_each(|entry| self.add_entry(&entry.expr, loops)),
            Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => {}
        }
        self.depth -= 1;
    }

    fn add_entry(&mut self, entry: &EntryExpr, loops: usize) {
        match entry {
            EntryExpr::StructField(field) => self.add(&field.value, loops),
            EntryExpr::MapEntry(entry) => {
                self.add(&entry.key, loops);
                self.add(&entry.value, loops);
            }
        }
    }
}

/// JSON as a value of CEL: whole numbers are `int`, others `double`.
fn value_of(json: &serde_json::Value) -> Value {
    match json {
        serde_json::Value::Null => Value::Null,
        serde_json::Value::Bool(truth) => Value::Bool(*truth),
        serde_json::Value::Number(number) => {
            number.as_i64().map_or_else(|| Value::Float(number.as_f64().unwrap_or(f64::NAN)), Value::Int)
        }
        serde_json::Value::String(text) => Value::String(Arc::new(text.clone())),
        serde_json::Value::Array(elements) => Value::List(Arc::new(elements.iter().map(value_of).collect())),
        serde_json::Value::Object(fields) => {
            let entry =
                |(name, value): (&String, &serde_json::Value)| (Key::String(Arc::new(name.clone())), value_of(value));
            Value::Map(Map { map: Arc::new(fields.iter().map(entry).collect()) })
        }
    }
}

/// A value of CEL as JSON, if it is of a type that JSON has.
fn json_of(value: &Value) -> Option<serde_json::Value> {
    Some(match value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(truth) => (*truth).into(),
        Value::Int(number) => (*number).into(),
        Value::UInt(number) => (*number).into(),
        Value::Float(number) => serde_json::Value::Number(serde_json::Number::from_f64(*number)?),
        Value::String(text) => text.as_str().into(),
        Value::List(elements) => elements.iter().map(json_of).collect::<Option<Vec<_>>>()?.into(),
        Value::Map(map) => {
            let entry = |(key, value): (&Key, &Value)| match key {
                Key::String(name) => Some((name.to_string(), json_of(value)?)),
                other => Some((format!("{other}"), json_of(value)?)),
            };
            serde_json::Value::Object(map.map.iter().map(entry).collect::<Option<_>>()?)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn truth(text: &str, context: &serde_json::Value) -> Result<bool, ExpressionError> {
        Expression::new(text, "context")?.truth(&Variables::of("context", context))
    }

    #[test]
    fn an_expression_looks_at_a_context() {
        let context = json!({ "speed": 52, "kind": "ambulance", "tags": ["night", "sea"], "battery": 0.4 });
        assert_eq!(truth("context.speed > 50 && context.kind == 'ambulance'", &context), Ok(true));
        assert_eq!(truth("context.speed > 50.5 && context.battery < 0.5", &context), Ok(true));
        assert_eq!(truth("context.tags.exists(tag, tag == 'sea')", &context), Ok(true));
        assert_eq!(truth("has(context.color) && context.color == 'red'", &context), Ok(false));
    }

    #[test]
    fn numbers_of_two_types_are_an_error_with_its_remedy() {
        let context = json!({ "speed": 52 });
        let error = truth("context.speed * 1.8 > 50.0", &context).unwrap_err().to_string();
        assert!(error.contains("`double(...)`"), "{error}");
        assert_eq!(truth("double(context.speed) * 1.8 > 50.0", &context), Ok(true));
        let error = truth("context.speed + 'a' == 'b'", &context).unwrap_err().to_string();
        assert!(!error.contains("double"), "{error}");
    }

    #[test]
    fn a_failing_expression_is_an_error_and_nothing_more() {
        let context = json!({ "speed": 52 });
        assert!(matches!(truth("context.color == 'red'", &context), Err(ExpressionError::Failed(_))));
        assert!(matches!(truth("context.speed / 0 == 1", &context), Err(ExpressionError::Failed(_))));
        assert!(matches!(truth("context.speed", &context), Err(ExpressionError::Type { .. })));
        assert!(matches!(truth("context.speed >", &context), Err(ExpressionError::Syntax(_))));
    }

    #[test]
    fn an_expression_calls_the_function_of_its_host() {
        let read = |text: &str| Expression::calling(text, &["payload"], Some("lookup"));
        let asked = |text: &str, payload: &serde_json::Value| {
            let lookup: Arc<HostFunction> = Arc::new(|arguments| match arguments {
                [serde_json::Value::String(table), key] => Ok(json!({ "of": table, "key": key })),
                other => Err(HostError(format!("{} arguments", other.len()))),
            });
            let variables = Variables::of("payload", payload).with_function("lookup", lookup).unwrap();
            read(text).unwrap().json(&variables)
        };
        assert_eq!(read("lookup('a', payload.x) == lookup('b', 1)").unwrap().subjects(), ["a", "b"]);
        let payload = json!({ "x": 7, "list": [1, 2] });
        assert_eq!(asked("lookup('a', payload.x).key + 1", &payload), Ok(json!(8)));
        assert_eq!(asked("payload.list.map(one, lookup('a', one).key)", &payload), Ok(json!([1, 2])));
        let error = asked("lookup('a')", &payload).unwrap_err().to_string();
        assert!(error.contains("1 arguments"), "{error}");
        for wrong in ["lookup(payload.x, 1)", "lookup()", "payload.lookup('a', 1)", "look('a', 1)"] {
            assert!(matches!(read(wrong), Err(ExpressionError::Function(_) | ExpressionError::Subject(_))), "{wrong}");
        }
        assert!(Expression::over("lookup('a', 1)", &["payload"]).is_err());
        let none: Arc<HostFunction> = Arc::new(|_| Ok(json!(1)));
        assert!(Variables::of("payload", &payload).with_function("size", none).is_err());
    }

    #[test]
    fn an_expression_beyond_a_limit_is_refused() {
        let refused = |text: String| matches!(Expression::new(&text, "context"), Err(ExpressionError::TooLarge(_)));
        assert!(refused("1".repeat(MAX_EXPRESSION_BYTES + 1)));
        assert!(refused(format!("{}1{}", "(".repeat(49), ")".repeat(49))));
        assert!(refused(format!("{}true", "!".repeat(49))));
        assert!(refused(format!("{}1", "true?1:".repeat(49))));
        assert!(refused("[1].all(x, [2].all(y, x < y))".to_owned()));
        assert!(refused(["[1].all(x, x > 0)"; 5].join(" && ")));
        assert!(refused(vec!["1"; 60].join("+")));
        assert!(refused(format!("[{}]", vec!["[1,1,1,1,1,1,1,1,1]"; 60].join(","))));
        assert!(Expression::new(&["[1].all(x, x > 0)"; 4].join(" && "), "context").is_ok());
        assert!(Expression::new("[1, 2].filter(x, x > 1).map(x, x * 2).size() == 1", "context").is_ok());
    }

    #[test]
    fn the_deepest_that_is_taken_fits_a_small_stack() {
        for text in [
            format!("{}1{} == 1", "(".repeat(48), ")".repeat(48)),
            format!("{}true", "!".repeat(48)),
            format!("{}1", "true?1:".repeat(48)),
            vec!["1"; 48].join("+"),
            vec!["1"; 900].join("+"),
            format!("context{}", ".a".repeat(46)),
            format!("context{}", ".a".repeat(900)),
        ] {
            let run = move || {
                Expression::new(&text, "context")
                    .map(|e| e.truth(&Variables::of("context", &json!({}))).is_ok())
                    .is_ok()
            };
            let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(run).unwrap();
            assert!(thread.join().is_ok());
        }
    }

    #[test]
    fn unknown_names_are_refused_when_an_expression_is_read() {
        let name = |text: &str| match Expression::condition(text) {
            Err(ExpressionError::Name { name, .. } | ExpressionError::Function(name)) => name,
            other => format!("{other:?}"),
        };
        assert_eq!(name("speed > 50"), "speed");
        assert_eq!(name("contxt.speed > 50"), "contxt");
        assert_eq!(name("has(context.speed) && has(other.speed)"), "other");
        assert_eq!(name("context.tags.exists(tag, tog == 'sea')"), "tog");
        assert_eq!(name("fast(context.speed)"), "fast");
        assert_eq!(name("context.kind.begins('a')"), "begins");
        let error = Expression::condition("speed > 50").unwrap_err().to_string();
        assert!(error.ends_with("it can look at `context`, such as `context.speed`"), "{error}");
        assert!(matches!(Expression::condition("1 + 1"), Err(ExpressionError::Type { .. })));
        for right in [
            "context.kind.startsWith('a') && context.kind.contains('b') || context.kind.endsWith('c')",
            "type(context.speed) == int || double(context.speed) > 3.5 || size(context.tags) > 1",
            "context.tags.all(tag, context.tags.exists_one(other, other == 'x') || tag.size() > 1)",
            "'x' in context.tags && !(context.battery < 20) && context['speed'] > 3",
            "context.tags.filter(tag, tag != 'a').map(tag, tag + 'b').size() == 1",
        ] {
            let read = Expression::condition(right);
            let fits = read.is_ok() || matches!(read, Err(ExpressionError::TooLarge(_)));
            assert!(fits, "{right}: {read:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_ends_a_thread(text in "[ -~]{0,60}", number in proptest::num::f64::ANY) {
            let _ = truth(&text, &json!({ "a": number, "b": [1, "x", null] }));
        }

        #[test]
        fn no_operation_on_any_two_values_ends_a_thread(
            operation in prop_oneof!["[-+*/%<>]", Just("==".to_owned()), Just("in".to_owned()), Just("&&".to_owned())],
            a in value(), b in value(),
        ) {
            let _ = truth(&format!("(context.a {operation} context.b) == true"), &json!({ "a": a, "b": b }));
        }
    }

    fn value() -> impl Strategy<Value = serde_json::Value> {
        prop_oneof![
            any::<i64>().prop_map(|n| json!(n)),
            Just(json!(i64::MIN)),
            Just(json!(0)),
            Just(json!(-1)),
            Just(json!(u64::MAX)),
            any::<f64>().prop_map(|n| json!(n)),
            ".{0,5}".prop_map(|s| json!(s)),
            Just(json!(null)),
            Just(json!([1, 2])),
            Just(json!({ "x": 1 })),
        ]
    }
}

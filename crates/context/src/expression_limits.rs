//! The limits of expressions, and why one is refused.

/// Longest text of an expression, bytes.
pub const MAX_EXPRESSION_BYTES: usize = 2_048;
/// Most parts (calls, names, constants) of an expression once macros are written out.
pub const MAX_EXPRESSION_PARTS: usize = 512;
/// Deepest nesting of brackets, longest row of `!`, `-` and `?`, and deepest nesting of operators (a sum of 49 is one)
/// in an expression.
pub const MAX_EXPRESSION_DEPTH: usize = 48;
/// Most comprehensions (`all`, `exists`, `exists_one`, `map`, `filter`) in an expression.
pub const MAX_COMPREHENSIONS: usize = 4;

/// Why an expression was refused, or failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionError {
    /// Not CEL.
    #[error("the expression cannot be read: {0}")]
    Syntax(String),
    /// Beyond a limit.
    #[error("the expression is too large: {0}; split it into several groups")]
    TooLarge(&'static str),
    /// An unknown name.
    #[error(
        "the expression names `{name}`, and there is no such thing; it can look at `{variable}`, such as `{variable}.{name}`"
    )]
    Name {
        /// The name.
        name: String,
        /// The known variable.
        variable: &'static str,
    },
    /// Any expression, in a program without the feature `expressions`.
    #[error("this program was built without expressions")]
    NotBuilt,
    /// An unknown function.
    #[error("there is no function `{0}` in expressions")]
    Function(String),
    /// A function of the host is called without a text in quotes as its first argument.
    #[error("the first argument of `{0}` has to be a text in quotes")]
    Subject(String),
    /// It failed for these values.
    #[error("the expression fails: {0}")]
    Failed(String),
    /// Another type than asked for.
    #[error("the expression gives {got}, where {wanted} is needed")]
    Type {
        /// The type of the result.
        got: String,
        /// The expected type.
        wanted: &'static str,
    },
}

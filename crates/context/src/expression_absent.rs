//! Expressions in a program without the feature `expressions`: each is refused.

use std::convert::Infallible;

use crate::expression_limits::ExpressionError;

/// An expression, which this program cannot have.
#[derive(Debug)]
pub struct Expression(Infallible);

/// The variables of an expression.
#[derive(Debug)]
pub struct Variables(());

impl Variables {
    /// No variable: there is no expression that looks at it.
    pub fn of(_: &str, _: &serde_json::Value) -> Self {
        Self(())
    }

    /// The same.
    pub fn of_all<'a>(_: impl IntoIterator<Item = (&'a str, &'a serde_json::Value)>) -> Self {
        Self(())
    }
}

impl Expression {
    /// Refuses an expression.
    ///
    /// # Errors
    /// Always.
    pub fn new(_: &str, _: &'static str) -> Result<Self, ExpressionError> {
        Err(ExpressionError::NotBuilt)
    }

    /// The same.
    ///
    /// # Errors
    /// Always.
    pub fn over(_: &str, _: &[&'static str]) -> Result<Self, ExpressionError> {
        Err(ExpressionError::NotBuilt)
    }

    /// The same.
    ///
    /// # Errors
    /// Always.
    pub fn condition(_: &str) -> Result<Self, ExpressionError> {
        Err(ExpressionError::NotBuilt)
    }

    /// No expression gets here.
    ///
    /// # Errors
    /// None.
    pub fn truth(&self, _: &Variables) -> Result<bool, ExpressionError> {
        match self.0 {}
    }

    /// No expression gets here.
    ///
    /// # Errors
    /// None.
    pub fn number(&self, _: &Variables) -> Result<f64, ExpressionError> {
        match self.0 {}
    }

    /// No expression gets here.
    ///
    /// # Errors
    /// None.
    pub fn json(&self, _: &Variables) -> Result<serde_json::Value, ExpressionError> {
        match self.0 {}
    }

    /// No expression gets here.
    pub fn parts_of(&self, _: &str) -> Vec<Vec<String>> {
        match self.0 {}
    }
}

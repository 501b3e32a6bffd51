//! A ranking of an operator's own, as an expression.

use tidegate_bus::Tally;

use super::{GatewayView, Ranking};
use crate::expression::{Expression, Variables};
use crate::expression_limits::ExpressionError;

/// Ranks by a CEL expression over `gateway`: `nodes`, `capacity`, `cpu`, `memory`, `loop_lag_ms`, `queue_bytes`,
/// `ping_rate`, `latency_ms`. All are numbers with a fraction, so that an expression need not care.
#[derive(Debug)]
pub struct ScoreExpression {
    expression: Expression,
    /// It gave no score.
    failures: Tally,
}

impl ScoreExpression {
    /// Reads the expression, and tries it out.
    ///
    /// # Errors
    /// When it cannot be read, is too large, or gives no number for an idle gateway.
    pub fn new(text: &str) -> Result<Self, ExpressionError> {
        let expression = Expression::new(text, "gateway")?;
        expression.number(&variables(&GatewayView::default()))?;
        Ok(Self { expression, failures: Tally::default() })
    }
}

impl Ranking for ScoreExpression {
    /// An expression that fails for a gateway gives it 0: it is the last to get anybody.
    fn score(&self, gateway: &GatewayView) -> f64 {
        self.expression.number(&variables(gateway)).unwrap_or_else(|error| {
            if let Some(times) = self.failures.note() {
                let name = &gateway.name;
                tracing::warn!(gateway = %name, %error, times, "context.score returns no score for a gateway; using 0");
            }
            0.0
        })
    }
}

fn variables(gateway: &GatewayView) -> Variables {
    let rate = gateway.statistics.ping_rate().unwrap_or(1.0);
    Variables::of(
        "gateway",
        &serde_json::json!({
            "name": gateway.name,
            "nodes": crate::real::real(gateway.nodes),
            "capacity": crate::real::real(gateway.capacity),
            "cpu": gateway.cpu,
            "memory": gateway.memory,
            "loop_lag_ms": crate::real::real(gateway.loop_lag_ms),
            "queue_bytes": crate::real::real(gateway.queue_bytes),
            "ping_rate": rate,
            "latency_ms": gateway.statistics.mean_ms,
        }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_ranks_as_it_says() {
        let ranking = ScoreExpression::new("(1.0 - gateway.cpu) * 10.0 / (1.0 + gateway.nodes)").unwrap();
        let of = |cpu, nodes| ranking.score(&GatewayView { nodes, cpu, ..GatewayView::default() });
        assert!((of(0.5, 4) - 1.0).abs() < 1e-9);
        assert!(of(0.1, 4) > of(0.5, 4));
    }

    #[test]
    fn a_score_without_a_number_is_refused_or_counts_0() {
        assert!(ScoreExpression::new("gateway.name").is_err());
        assert!(ScoreExpression::new("gateway.color").is_err());
        let ranking = ScoreExpression::new("gateway.nodes > 5.0 ? [1.0][7] : 1.0").unwrap();
        assert!((ranking.score(&GatewayView { nodes: 9, ..GatewayView::default() })).abs() < f64::EPSILON);
    }

    #[test]
    fn a_failing_score_is_logged_once_a_minute() {
        let ranking = ScoreExpression::new("gateway.nodes < 1.0 ? 1.0 : double(gateway.name)").unwrap();
        let gateway = GatewayView { nodes: 5, name: "none".into(), ..GatewayView::default() };
        for _ in 0..20 {
            assert!(ranking.score(&gateway).abs() < f64::EPSILON);
        }
        assert_eq!(ranking.failures.note_at(std::time::Instant::now() + std::time::Duration::from_secs(60)), Some(20));
    }
}

//! The part of `[context]` that the manager of points of access works with.

use tidegate_context::ranking::{ConnectionsInverse, Ranking, ResourceWeights, ScoreExpression, WeightedResources};
use tidegate_context::{Points, PointsError, PointsSettings, ReallocationSettings, ReconfigError, ReconfigSettings};

use crate::sections::context::{Context, RankingName};

/// A key of the section whose value the manager cannot work with.
#[derive(Debug, thiserror::Error)]
#[error("context.{key}: {problem}")]
pub struct WrongKey {
    /// The key.
    pub key: &'static str,
    problem: String,
}

impl WrongKey {
    fn new(key: &'static str, problem: &dyn std::fmt::Display) -> Self {
        Self { key, problem: problem.to_string() }
    }
}

/// The ranking of gateways. Weights and expression are both checked, so that a mistake is found before it has an
/// effect.
///
/// # Errors
/// When a value cannot be used; the key is named.
pub fn ranking(context: &Context) -> Result<Box<dyn Ranking>, WrongKey> {
    let weights = ResourceWeights::of(context.weights.0.iter().map(String::as_str));
    let resources = weights.and_then(WeightedResources::new).map_err(|error| WrongKey::new("weights", &error))?;
    let score = context.score.as_deref().map(ScoreExpression::new).transpose();
    let score = score.map_err(|error| WrongKey::new("score", &error))?;
    let missing = || WrongKey::new("ranking", &"`expression` needs context.score");
    let ranking: Box<dyn Ranking> = match context.ranking {
        RankingName::Connections => Box::new(ConnectionsInverse),
        RankingName::Resources => Box::new(resources),
        RankingName::Expression => Box::new(score.ok_or_else(missing)?),
    };
    Ok(ranking)
}

/// The ranking of the nodes of a cluster. Nodes have no statistics of pings: by default these resources do not count.
///
/// # Errors
/// As for [`ranking`], and when weights or the expression name statistics of pings; the key is named with the remedy.
pub fn ranking_of_nodes(context: &Context) -> Result<Box<dyn Ranking>, WrongKey> {
    let refuse = |key, remedy| {
        let problem = format!(
            "nodes of a cluster have no statistics of pings, so cluster.balance = \"ranking\" cannot use them; {remedy}"
        );
        Err(WrongKey::new(key, &problem))
    };
    let checked = ranking(context)?;
    match context.ranking {
        RankingName::Resources if context.weights == Context::default().weights => {
            let weights = ResourceWeights { ping_rate: 0.0, latency: 0.0, ..ResourceWeights::default() };
            let ranking = WeightedResources::new(weights).map_err(|error| WrongKey::new("weights", &error))?;
            Ok(Box::new(ranking))
        }
        RankingName::Resources => {
            let weights = ResourceWeights::of(context.weights.0.iter().map(String::as_str));
            let weights = weights.map_err(|error| WrongKey::new("weights", &error))?;
            let uses_pings = weights.ping_rate > 0.0 || weights.latency > 0.0;
            if uses_pings { refuse("weights", "remove `ping_rate` and `latency`") } else { Ok(checked) }
        }
        RankingName::Expression => {
            let score = context.score.as_deref().unwrap_or_default();
            let uses_pings = ["ping_rate", "latency_ms"].iter().any(|name| score.contains(name));
            if uses_pings {
                refuse("score", "remove `gateway.ping_rate` and `gateway.latency_ms`")
            } else {
                Ok(checked)
            }
        }
        RankingName::Connections => Ok(checked),
    }
}

/// The settings of the manager of points of access.
///
/// # Errors
/// When a value cannot be used; the key is named.
pub fn points(context: &Context) -> Result<Points, WrongKey> {
    let wrong = WrongKey::new;
    let factors = context.ping_factors.0.iter().map(|text| text.parse()).collect::<Result<_, ReconfigError>>();
    let settings = PointsSettings {
        missed_windows: context.missed_windows,
        ping_interval: context.ping_interval,
        ping_window: context.ping_window,
        reconfig: ReconfigSettings {
            enabled: context.ping_reconfigure,
            factors: factors.map_err(|error| wrong("ping_factors", &error))?,
            floor: context.ping_window_min,
            ceiling: context.ping_window_max,
            ..ReconfigSettings::default()
        },
        reallocation: ReallocationSettings {
            cooldown: context.handover_cooldown,
            max_per_cycle: context.handovers_per_cycle as usize,
            ..ReallocationSettings::default()
        },
        balance: context.balance,
        list_period: context.list_period,
        ..PointsSettings::default()
    };
    Points::new(settings, ranking(context)?).map_err(|error| match error {
        PointsError::Reconfig(ReconfigError::Bounds) => wrong("ping_window_min", &error),
        PointsError::Reconfig(_) => wrong("ping_factors", &error),
        _ => wrong("balance", &error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use tidegate_context::ranking::GatewayView;

    #[test]
    fn rankings_of_nodes_use_no_statistics_of_pings() {
        let mut config = Config::default();
        let context = &mut config.context;
        let refusal = |context: &Context| ranking_of_nodes(context).err().map(|error| error.to_string());
        context.ranking = RankingName::Resources;
        let busy = GatewayView { cpu: 1.0, memory: 1.0, loop_lag_ms: 100, queue_bytes: 1 << 40, ..Default::default() };
        assert!(ranking_of_nodes(context).unwrap().score(&busy) < 1e-9, "missing statistics give no score");
        context.weights.0 = vec!["cpu: 1".to_owned()];
        assert_eq!(refusal(context), None);
        context.weights.0.push("latency: 1".to_owned());
        let refused = refusal(context).unwrap();
        assert!(refused.contains("context.weights: nodes") && refused.contains("remove `ping_rate`"), "{refused}");
        context.ranking = RankingName::Expression;
        context.score = Some("1.0 - gateway.ping_rate".to_owned());
        assert!(refusal(context).unwrap().contains("context.score: nodes"));
        context.score = Some("1.0 - gateway.cpu".to_owned());
        assert_eq!(refusal(context), None);
    }

    #[test]
    fn mistakes_are_reported_with_the_key() {
        let mut config = Config::default();
        let context = &mut config.context;
        context.ranking = RankingName::Expression;
        assert!(points(context).err().unwrap().to_string().contains("needs context.score"));
        context.score = Some("gateway.name".to_owned());
        assert!(points(context).err().unwrap().to_string().contains("context.score: the expression gives"));
        context.score = Some("gateway.capacity".to_owned());
        assert!(points(context).is_ok());
        context.ranking = RankingName::Resources;
        assert!(points(context).is_ok());
        context.weights.0 = vec!["cpu: 0".to_owned()];
        assert!(points(context).err().unwrap().to_string().contains("context.weights: a weight is negative"));
        context.weights.0.push("disk: 3".to_owned());
        assert!(points(context).err().unwrap().to_string().contains("context.weights: `disk: 3` is not a weight"));
        context.ranking = RankingName::Connections;
        assert!(points(context).err().unwrap().to_string().contains("context.weights: `disk: 3` is not a weight"));
        context.weights = Context::default().weights;
        context.score = Some("gateway.".to_owned());
        assert!(points(context).err().unwrap().to_string().contains("context.score: the expression cannot be read"));
        context.score = None;
        context.ping_window_min = std::time::Duration::from_secs(60);
        assert!(points(context).err().unwrap().to_string().contains("shortest ping window"));
        context.ping_factors.0 = vec!["50%: 2".to_owned(), "20%: 1".to_owned()];
        assert!(points(context).err().unwrap().to_string().contains("do not ascend"));
        context.ping_factors.0.push("fast".to_owned());
        assert!(points(context).err().unwrap().to_string().contains("context.ping_factors: `fast` is no ping rate"));
    }
}

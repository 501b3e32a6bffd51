//! Keys of `[context]` that are set and have no effect.

use tidegate_config::Config;
use tidegate_config::sections::cluster::Balance;
use tidegate_config::sections::context::RankingName;
use tidegate_config::source::Source;

/// Keys of the manager's handovers.
const HANDOVERS: [&str; 3] = ["balance", "handover_cooldown", "handovers_per_cycle"];
/// All keys that only the process that runs the manager reads.
const MANAGER: [&str; 7] =
    ["ranking", "weights", "score", "balance", "handover_cooldown", "handovers_per_cycle", "list_period"];

/// The configured keys without effect here, each with the reason. `manages` says whether this process runs the manager
/// of points of access.
pub(super) fn idle_keys(config: &Config, manages: bool) -> Vec<(&'static str, &'static str)> {
    let context = &config.context;
    let mut idle = Vec::new();
    if manages {
        if context.ranking != RankingName::Expression {
            idle.push(("score", "it needs context.ranking = \"expression\""));
        }
        if context.ranking != RankingName::Resources {
            idle.push(("weights", "it needs context.ranking = \"resources\""));
        }
        if !config.cluster.name.is_empty() {
            idle.extend(HANDOVERS.map(|key| (key, "in a cluster nodes are where their partition is")));
        } else if !context.balance {
            idle.extend(["handover_cooldown", "handovers_per_cycle"].map(|key| (key, "context.balance is false")));
        }
    } else {
        idle.extend(MANAGER.map(|key| (key, "the manager of points of access does not run in this process")));
        if config.cluster.balance == Balance::Ranking {
            idle.retain(|(key, _)| !["ranking", "weights", "score"].contains(key));
        }
    }
    idle.retain(|(key, _)| *config.origins.source_of("context", key) != Source::Default);
    idle
}

/// Logs each of them.
pub(super) fn tell_idle_keys(config: &Config, manages: bool) {
    for (key, why) in idle_keys(config, manages) {
        tracing::warn!(key = format!("context.{key}"), why, "a key of the configuration has no effect");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_config::Inputs;
    use tidegate_config::source::FileText;

    fn idle(keys: &str, manages: bool) -> Vec<&'static str> {
        let text = format!("[addresses]\nenabled = true\n[context]\nenabled = true\n{keys}");
        let file = FileText::new("tidegate.toml", &text);
        let config = Config::load(Inputs { file: Some(file), ..Inputs::default() }).unwrap();
        idle_keys(&config, manages).into_iter().map(|(key, _)| key).collect()
    }

    #[test]
    fn keys_without_effect_are_reported() {
        assert_eq!(idle("", true), Vec::<&str>::new());
        assert_eq!(idle("score = '1.0'\n", true), ["score"]);
        assert_eq!(idle("score = '1.0'\nranking = 'expression'\n", true), Vec::<&str>::new());
        assert_eq!(idle("balance = false\nhandover_cooldown = '1m'\n", true), ["handover_cooldown"]);
        assert_eq!(idle("ranking = 'resources'\nbalance = false\n", false), ["ranking", "balance"]);
        let by_ranking =
            "ranking = 'resources'\nbalance = false\n[cluster]\nname = 'a'\nbalance = 'ranking'\nbus = 'nats://h'\n";
        assert_eq!(idle(by_ranking, false), ["balance"]);
    }
}

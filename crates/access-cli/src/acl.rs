//! `tidegate acl test`: whether a client may do something, and which rule decides.

use std::fmt::Write;

use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use tidegate_acl::{DecidedBy, Effect, Explanation, Request, Rules, Subject};
use tidegate_mqtt::{QoS, TopicFilter, TopicName};

use tidegate_config_cli::args::ConfigArgs;
use tidegate_identity::access;
use tidegate_terminal::{Exit, print_and_exit, report};

const ACL_TEST: &str = "\
Examples:
  tidegate acl test alice sensor-1 publish plant/1/temperature -c tidegate.toml
  tidegate acl test - guest subscribe 'public/#' --set access.acl_file=acl --explain
Exit codes: 0 allowed, 1 denied, 2 the question or the configuration is wrong.";

/// Questions to the access rules.
#[derive(Debug, Subcommand)]
pub enum AclCommand {
    /// Say whether a client may do something, and which rule decides
    #[command(after_help = ACL_TEST)]
    Test(Box<TestArgs>),
}

/// The arguments of `acl test`: the client, and its action.
#[derive(Clone, Debug, ClapArgs)]
pub struct TestArgs {
    /// User name, or `-` for a client without one
    user: String,
    /// Client id
    client: String,
    /// The action of the client
    #[arg(value_enum)]
    action: Action,
    /// Topic name; for `subscribe` a topic filter
    topic: String,
    /// QoS: 0, 1 or 2
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=2))]
    qos: u8,
    /// The message is to be retained
    #[arg(long)]
    retain: bool,
    /// An attribute of the client, such as a claim of its token; repeatable
    #[arg(long, value_name = "NAME=VALUE", value_parser = attribute)]
    attribute: Vec<(String, String)>,
    /// Name of the listener that the client comes through
    #[arg(long, value_name = "NAME", default_value = "")]
    listener: String,
    /// Name of the client's tenant
    #[arg(long, value_name = "NAME", default_value = "")]
    tenant: String,
    /// Common name of the client's certificate
    #[arg(long, value_name = "NAME")]
    certificate_cn: Option<String>,
    /// Also list the rules that were asked before, and why they did not decide
    #[arg(long)]
    explain: bool,
    #[command(flatten)]
    sources: ConfigArgs,
}

/// The actions of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Action {
    /// Publish a message, or leave it as a will
    Publish,
    /// Subscribe to a filter
    Subscribe,
    /// Receive a message that a subscription brings
    Receive,
}

/// An attribute without `=`.
#[derive(Debug, thiserror::Error)]
#[error("must be NAME=VALUE, not {0:?}")]
struct AttributeError(String);

fn attribute(text: &str) -> Result<(String, String), AttributeError> {
    let (name, value) = text.split_once('=').ok_or_else(|| AttributeError(text.to_owned()))?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Carries out a command.
pub fn run(command: &AclCommand) -> Exit {
    match command {
        AclCommand::Test(args) => test(args),
    }
}

/// Exit code 0 when it is allowed, 1 when it is not, 2 when the question or the configuration is wrong.
fn test(args: &TestArgs) -> Exit {
    let config = match tidegate_config_cli::load(&args.sources) {
        Ok(config) => config,
        Err(exit) => return exit,
    };
    let rules = match access::load(&config) {
        Ok(rules) => rules,
        Err(error) => {
            report(&error);
            return Exit::Usage;
        }
    };
    let request = match args.request() {
        Ok(request) => request,
        Err(error) => {
            report(&error);
            return Exit::Usage;
        }
    };
    let open = Rules::open();
    let rules = rules.as_deref().unwrap_or(&open);
    let explanation = rules.explain(&args.subject(), &request);
    let exit = if explanation.decision.allowed { Exit::Ok } else { Exit::Failure };
    print_and_exit(&describe(&explanation, rules, args.explain), exit)
}

/// A topic or a topic filter that is not valid.
#[derive(Debug, thiserror::Error)]
#[error("the {kind} {topic:?} {why}")]
struct TopicError {
    kind: &'static str,
    topic: String,
    why: String,
}

impl TestArgs {
    fn subject(&self) -> Subject<'_> {
        Subject {
            client_id: &self.client,
            user_name: Some(self.user.as_str()).filter(|user| *user != "-"),
            tenant: &self.tenant,
            listener: &self.listener,
            certificate_cn: self.certificate_cn.as_deref(),
            attributes: &self.attribute,
            superuser: false,
            granted: None,
        }
    }

    fn request(&self) -> Result<Request<'_>, TopicError> {
        let qos = match self.qos {
            0 => QoS::AtMostOnce,
            1 => QoS::AtLeastOnce,
            _ => QoS::ExactlyOnce,
        };
        let name = || {
            TopicName::new(&self.topic).map_err(|error| TopicError {
                kind: "topic",
                topic: self.topic.clone(),
                why: error.to_string(),
            })
        };
        Ok(match self.action {
            Action::Publish => Request::Publish { topic: name()?, qos, retain: self.retain },
            Action::Receive => Request::Receive { topic: name()? },
            Action::Subscribe => {
                let filter = TopicFilter::new(&self.topic);
                let filter = filter.map_err(|error| TopicError {
                    kind: "topic filter",
                    topic: self.topic.clone(),
                    why: error.to_string(),
                })?;
                Request::Subscribe { filter, qos }
            }
        })
    }
}

/// `allowed: FILE:LINE: RULE`, and below it the skipped rules.
fn describe(explanation: &Explanation<'_>, rules: &Rules, explain: bool) -> String {
    let decision = explanation.decision;
    let mut text = match (decision.allowed, decision.filtered) {
        (true, true) => "allowed, message by message: ".to_owned(),
        (true, false) => "allowed: ".to_owned(),
        (false, _) => "denied: ".to_owned(),
    };
    match (explanation.rule, decision.by) {
        (Some(rule), _) => {
            let _ = writeln!(text, "{rule}");
        }
        (None, DecidedBy::Superuser) => text.push_str("the client is a superuser\n"),
        (None, DecidedBy::Grants) => text.push_str("by what its token grants\n"),
        (None, _) if rules.is_empty() && rules.default_effect() == Effect::Allow => {
            text.push_str("there are no rules\n");
        }
        (None, _) if rules.is_empty() => {
            text.push_str("there are no rules, and `access.default` or an empty file denies\n");
        }
        (None, _) => text.push_str("no rule is about it\n"),
    }
    if explain {
        for passed in &explanation.passed_over {
            let _ = writeln!(text, "  {}\n    {}", passed.rule, passed.why.text());
        }
    }
    text
}

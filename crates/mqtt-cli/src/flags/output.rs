//! How messages are shown.

use clap::Args;

use super::heading;
use crate::format::Template;

/// Flags of the output.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct OutputFlags {
    /// Show messages by this format, see below
    #[arg(short = 'F', long, value_name = "FORMAT", allow_hyphen_values = true, value_parser = Template::parse, help_heading = heading::OUTPUT)]
    pub format: Option<Template>,

    /// Show the topic before the payload
    #[arg(short = 'v', long, help_heading = heading::OUTPUT)]
    pub verbose: bool,

    /// Add no end of line to a message
    #[arg(short = 'N', long, help_heading = heading::OUTPUT)]
    pub no_newline: bool,

    /// Lay JSON (%j and %J) out over several lines
    #[arg(long, help_heading = heading::OUTPUT)]
    pub pretty: bool,
}

/// The format language in short, for the help.
pub(crate) const FORMAT_HELP: &str = "\
Format (-F): text with %[-][0][WIDTH][.PRECISION]FIELD, @CONVERSION of strftime, and \\ESCAPE
  %t topic    %p payload   %x %X payload in hex   %f %d payload as 4- or 8-byte float   %l its length
  %q QoS      %r retain    %m packet id    %j JSON with the payload as text, %J as JSON
  %I time, ISO 8601        %U time, Unix   @H:@M:@S.@N and so on       %% @@ \\\\ the character itself
  %C content type   %R response topic   %D correlation data   %E expiry   %F payload format
  %P user properties   %S subscription identifiers   %A topic alias   \\n \\t \\0 \\e and so on";

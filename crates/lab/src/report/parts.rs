//! The parts of a platform: the limits and the use of each.

use super::markup::{escape, put};
use crate::platform::PartUse;
use crate::results::Results;
use tidegate_plot::shown;

/// Writes a table of the first valid run of each case and broker that has parts.
pub(super) fn write(results: &Results, out: &mut String) {
    if results.runs.iter().all(|run| run.parts.is_empty()) {
        return;
    }
    out.push_str("<h2 id=\"parts\">Parts of the platform</h2>");
    out.push_str(
        "<p class=\"note\">Each part is a process with limits of its own; of the first repetition, from the first client's connection to the end of the last one. Gateways and hubs count their \
         messages.</p><div class=\"scroll\"><table><thead><tr><th>Case</th><th class=\"text\">Run with</th><th class=\"text\">Part</th><th>CPU, cores</th><th>of</th>\
         <th>Memory, peak, MiB</th><th>of</th><th>Had to wait for CPU</th><th>Messages in</th><th>Messages out</th></tr></thead><tbody>",
    );
    for case in results.case_names() {
        for peer in results.peer_names() {
            let Some(run) = results.runs_of(&case, &peer).next() else { continue };
            run.parts.iter().for_each(|part| row(&case, &peer, part, out));
        }
    }
    out.push_str("</tbody></table></div>");
}

fn row(case: &str, peer: &str, part: &PartUse, out: &mut String) {
    let names = [case, peer, &part.name];
    out.push_str("<tr>");
    for name in names {
        put!(out, "<td class=\"text\">{}</td>", escape(name));
    }
    let count = |count: Option<u64>| count.map_or_else(String::new, |count| count.to_string());
    let cells = [
        shown(part.cores),
        part.limits.cpus.map_or_else(String::new, shown),
        shown(mebibytes(part.memory_peak)),
        part.limits.memory.map_or_else(String::new, |bytes| shown(mebibytes(bytes.0))),
        part.throttled.to_string(),
        count(part.messages_in),
        count(part.messages_out),
    ];
    for cell in cells {
        put!(out, "<td>{cell}</td>");
    }
    out.push_str("</tr>");
}

#[expect(clippy::cast_precision_loss, reason = "numbers are shown with a few digits")]
fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::span::Bytes;

    #[test]
    fn a_part_is_beside_its_limits() {
        let limits = Limits { cpus: Some(0.2), memory: Some(Bytes(100 << 20)), descriptors: None };
        let part = PartUse {
            name: "hub-0".to_owned(),
            limits,
            cores: 0.125,
            memory_peak: 25 << 20,
            throttled: 3,
            messages_in: Some(7),
            messages_out: None,
        };
        let mut out = String::new();
        row("c", "tidegate", &part, &mut out);
        let cells: Vec<&str> = out.split("</td>").filter_map(|cell| cell.rsplit('>').next()).collect();
        assert_eq!(cells, ["c", "tidegate", "hub-0", "0.125", "0.2", "25", "100", "3", "7", "", ""]);
    }
}

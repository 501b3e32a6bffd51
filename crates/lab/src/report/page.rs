//! The frame of a report.

use tidegate_plot::page_style;

use super::markup::{escape, put};

const STYLE: &str = include_str!("style.css");

/// A page that needs no other file and no network.
pub fn page(title: &str, body: &str) -> String {
    let mut out = String::with_capacity(body.len() + STYLE.len() + 500);
    put!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{}</title>\n\
         <link rel=\"icon\" href=\"data:,\">\n<style>\n{}{STYLE}</style>\n</head>\n<body>\n<main>\n",
        escape(title),
        page_style()
    );
    out.push_str(body);
    out.push_str("</main>\n</body>\n</html>\n");
    out
}

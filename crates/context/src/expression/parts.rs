//! Which parts of a variable an expression looks at.

use cel::IdedExpr;
use cel::common::ast::{EntryExpr, Expr};

/// The paths of fields of a variable that an expression looks at.
pub(super) struct PathFinder<'a> {
    variable: &'a str,
    paths: Vec<Vec<String>>,
}

impl<'a> PathFinder<'a> {
    /// The paths below `variable`. A variable of a comprehension with the same name counts too: more is looked at then, not less.
    pub(super) fn of(expression: &IdedExpr, variable: &'a str) -> Vec<Vec<String>> {
        let mut parts = Self { variable, paths: Vec::new() };
        parts.add(expression);
        parts.paths
    }

    fn add(&mut self, expression: &IdedExpr) {
        if let Some(path) = self.path(expression) {
            self.paths.push(path);
            return;
        }
        match &expression.expr {
            Expr::Call(call) => {
                call.target.iter().for_each(|target| self.add(target));
                call.args.iter().for_each(|argument| self.add(argument));
            }
            Expr::Comprehension(comprehension) => {
                let parts = [
                    &comprehension.iter_range,
                    &comprehension.accu_init,
                    &comprehension.loop_cond,
                    &comprehension.loop_step,
                    &comprehension.result,
                ];
                for part in parts {
                    self.add(part);
                }
            }
            Expr::List(list) => list.elements.iter().for_each(|element| self.add(element)),
            Expr::Map(map) => map.entries.iter().for_each(|entry| self.add_entry(&entry.expr)),
            Expr::Select(select) => self.add(&select.operand),
            Expr::Struct(structure) => structure.entries.iter().for_each(|entry| self.add_entry(&entry.expr)),
            Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => {}
        }
    }

    fn add_entry(&mut self, entry: &EntryExpr) {
        match entry {
            EntryExpr::StructField(field) => self.add(&field.value),
            EntryExpr::MapEntry(entry) => {
                self.add(&entry.key);
                self.add(&entry.value);
            }
        }
    }

    /// The fields of `variable.a.b`.
    fn path(&self, expression: &IdedExpr) -> Option<Vec<String>> {
        let (mut at, mut fields) = (expression, Vec::new());
        loop {
            match &at.expr {
                Expr::Ident(name) if name == self.variable => break,
                Expr::Select(select) => {
                    fields.push(select.field.clone());
                    at = &select.operand;
                }
                _ => return None,
            }
        }
        fields.reverse();
        Some(fields)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Expression;

    #[test]
    fn an_expression_names_the_parts_of_its_variable() {
        for (text, parts) in [
            ("'a/' + payload.customer", &["customer"][..]),
            ("payload.a.b > 1 && has(payload.c) && id == ''", &["a.b", "c"]),
            ("payload['a'] == 1", &[""]),
            ("payload.list.exists(x, x > payload.least)", &["list", "least"]),
            ("{'a': payload.a, id: [payload.b]} == {}", &["a", "b"]),
            ("size(id) > 1", &[]),
        ] {
            let found = Expression::over(text, &["id", "payload"]).unwrap().parts_of("payload");
            assert_eq!(found.iter().map(|path| path.join(".")).collect::<Vec<_>>(), parts, "{text}");
        }
    }
}

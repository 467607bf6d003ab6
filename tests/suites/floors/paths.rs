//! Which paths a Rust source names: every `a::b::c`, `use` trees spread out and
//! the names they bring in followed, code for tests left out. It reads tokens, so
//! comments and strings do not count and the inside of macros does.

use std::{collections::BTreeMap, str::FromStr as _};

use proc_macro2::{Delimiter, LexError, TokenStream, TokenTree};

/// A path in full, such as `std::fs::read`; a glob ends in `*`.
#[derive(Debug, PartialEq)]
pub(crate) struct Named {
    pub(crate) path: Vec<String>,
    pub(crate) line: usize,
    /// By a `pub use`, which passes on what is elsewhere.
    pub(crate) passed_on: bool,
}

/// What a source names, and what the names that it brings in stand for.
pub(crate) struct Names {
    pub(crate) named: Vec<Named>,
    pub(crate) imported: BTreeMap<String, Vec<String>>,
}

pub(crate) fn paths(source: &str) -> Result<Vec<Named>, LexError> {
    Ok(names(source)?.named)
}

pub(crate) fn names(source: &str) -> Result<Names, LexError> {
    let mut tokens = Vec::new();
    flatten(TokenStream::from_str(source)?, &mut tokens);
    let mut reader = Reader { tokens, ..Reader::default() };
    reader.read();
    Ok(reader.resolved())
}

struct Token {
    text: String,
    is_word: bool,
    line: usize,
}

/// One flat row of tokens, `::` as one of them, without what is only for tests.
fn flatten(stream: TokenStream, tokens: &mut Vec<Token>) {
    let mut trees = stream.into_iter().peekable();
    while let Some(tree) = trees.next() {
        let line = tree.span().start().line;
        let mut push = |text: &str, is_word| {
            tokens.push(Token { text: text.to_owned(), is_word, line });
        };
        match tree {
            TokenTree::Ident(word) => push(word.to_string().trim_start_matches("r#"), true),
            TokenTree::Literal(_) => push("literal", false),
            TokenTree::Punct(mark) => match (mark.as_char(), trees.peek()) {
                ('#', Some(next)) if is_cfg_test(next) => {
                    // The item ends with its body or its semicolon.
                    trees.find(|tree| is_body(tree) || is_mark(tree, ';'));
                }
                (':', Some(next)) if is_mark(next, ':') => {
                    trees.next();
                    push("::", false);
                }
                (mark, _) => push(&mark.to_string(), false),
            },
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Parenthesis | Delimiter::Bracket | Delimiter::None => ("(", ")"),
                };
                push(open, false);
                flatten(group.stream(), tokens);
                tokens.push(Token { text: close.to_owned(), is_word: false, line });
            }
        }
    }
}

fn is_cfg_test(tree: &TokenTree) -> bool {
    matches!(tree, TokenTree::Group(group)
        if group.stream().to_string().replace(' ', "") == "cfg(test)")
}

fn is_body(tree: &TokenTree) -> bool {
    matches!(tree, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace)
}

fn is_mark(tree: &TokenTree, mark: char) -> bool {
    matches!(tree, TokenTree::Punct(punct) if punct.as_char() == mark)
}

#[derive(Default)]
struct Reader {
    tokens: Vec<Token>,
    at: usize,
    /// As written.
    named: Vec<Named>,
    /// What a name stands for that a `use` brought in, anywhere in the file.
    imported: BTreeMap<String, Vec<String>>,
}

impl Reader {
    fn read(&mut self) {
        let mut public = false;
        while let Some(token) = self.tokens.get(self.at) {
            if token.text == "use" && self.peek(1) != Some("<") {
                self.at += 1;
                self.use_tree(&[], public);
            } else if token.text == "pub" {
                self.visibility();
                public = true;
                continue;
            } else if token.text == "mod" {
                // Its own name, which says nothing of what is used of it.
                self.at += 2;
            } else if token.is_word {
                let line = token.line;
                let path = self.path();
                self.named.push(Named { path, line, passed_on: false });
            } else {
                self.at += 1;
            }
            public = false;
        }
    }

    /// `pub`, with whom it names in parentheses, which uses nothing of theirs.
    fn visibility(&mut self) {
        self.at += 1;
        let of = ["crate", "super", "self", "in"];
        if self.peek(0) == Some("(") && self.peek(1).is_some_and(|word| of.contains(&word)) {
            while self.peek(0).is_some_and(|text| text != ")") {
                self.at += 1;
            }
            self.at += 1;
        }
    }

    /// `a::b`, up to a turbofish or whatever else is not a name.
    fn path(&mut self) -> Vec<String> {
        let mut path = vec![self.take()];
        while self.peek(0) == Some("::") && self.tokens.get(self.at + 1).is_some_and(|t| t.is_word)
        {
            self.at += 1;
            path.push(self.take());
        }
        path
    }

    fn use_tree(&mut self, prefix: &[String], passed_on: bool) {
        let mut path = prefix.to_vec();
        let line = self.tokens.get(self.at).map_or(0, |token| token.line);
        while self.peek(0).is_some() {
            match self.peek(0) {
                Some("::") => self.at += 1,
                Some("{") => {
                    self.at += 1;
                    while !matches!(self.peek(0), None | Some("}")) {
                        self.use_tree(&path, passed_on);
                        self.at += usize::from(self.peek(0) == Some(","));
                    }
                    self.at += 1;
                    return;
                }
                Some("," | "}" | ";" | "as") | None => break,
                Some("self") if !path.is_empty() => self.at += 1,
                Some(_) => path.push(self.take()),
            }
        }
        let mut name = path.last().cloned();
        if self.peek(0) == Some("as") {
            self.at += 1;
            name = Some(self.take());
        }
        if let Some(name) = name {
            self.imported.insert(name, path.clone());
        }
        self.named.push(Named { path, line, passed_on });
    }

    fn resolved(self) -> Names {
        let resolve = |mut named: Named| {
            if let Some(origin) = named.path.first().and_then(|first| self.imported.get(first)) {
                named.path.splice(..1, origin.iter().cloned());
            }
            named
        };
        let named = self.named.into_iter().map(resolve).collect();
        Names { named, imported: self.imported }
    }

    fn peek(&self, ahead: usize) -> Option<&str> {
        self.tokens.get(self.at + ahead).map(|token| token.text.as_str())
    }

    fn take(&mut self) -> String {
        let text = self.peek(0).unwrap_or_default().to_owned();
        self.at += 1;
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(source: &str) -> Vec<String> {
        paths(source).unwrap().into_iter().map(|named| named.path.join("::")).collect()
    }

    #[test]
    fn use_trees_are_spread_out() {
        assert_eq!(
            named("use std::{fs::{self, File}, io as input, net::*};"),
            ["std::fs", "std::fs::File", "std::io", "std::net::*"],
        );
    }

    #[test]
    fn imported_names_are_followed() {
        assert!(
            named("use std::time as t; const A: u8 = t::Instant::now();")
                .contains(&"std::time::Instant::now".to_owned())
        );
    }

    #[test]
    fn only_code_counts() {
        let source = r##"
            //! std::fs
            /* std::fs */ const A: &str = "std::fs"; const B: &str = r#"std::fs"#;
            #[cfg(test)] mod tests { use std::fs; }
            #[cfg(test)] use std::fs;
        "##;
        assert!(!named(source).iter().any(|name| name.contains("fs")), "{:?}", named(source));
    }

    #[test]
    fn the_inside_of_macros_counts() {
        assert!(
            named("fn f() { assert!(vec![::std::fs::exists(p)]); }")
                .contains(&"std::fs::exists".to_owned())
        );
    }
}

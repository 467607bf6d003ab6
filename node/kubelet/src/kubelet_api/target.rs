//! What a request asks of a kubelet: its method and path, parsed once. The right that it
//! needs and what is served are both read from the parsed value, never from the path. Only
//! the canonical form of a path is parsed: two readers cannot differ about it.

use axum::http::Method;

use super::request::Stream;

/// A request to a kubelet whose path is canonical.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Asked {
    method: Method,
    target: Target,
}

/// What a canonical path names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    Stream {
        kind: Stream,
        namespace: String,
        pod: String,
        uid: Option<String>,
    },
    Pods,
    RunningPods,
    Figures(Form),
    Metrics,
    /// How the probes of pods went: the provider's kubelet makes them.
    Probes,
    Healthz,
    Configz,
    /// Nothing that a virtual node has; asking for it needs the right of its area.
    NotServed(Area),
}

/// A form in which figures are given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Summary,
    Resource,
    Cadvisor,
}

/// A part of the kubelet's API that has a right of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Area {
    Pods,
    Healthz,
    Configz,
    Stats,
    Metrics,
    Logs,
    Checkpoint,
    /// What runs something in a pod, or connects to it.
    Run,
    Other,
}

/// What a user needs on the node for a request: this verb on any of these subresources, in
/// the order in which they are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Right {
    pub(super) verb: &'static str,
    pub(super) subresources: &'static [&'static str],
}

/// A path that could be read in more than one way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the path is not canonical: write it without empty, '.' or '..' segments, escapes, a \
    trailing slash or other letter cases, as in /exec/NAMESPACE/POD/CONTAINER"
)]
pub(super) struct NotCanonical;

impl Asked {
    pub(super) fn parse(method: &Method, path: &str) -> Result<Self, NotCanonical> {
        Ok(Self { method: method.clone(), target: Target::parse(path)? })
    }

    /// In one point stricter than the kubelet of 1.35: what runs something in a pod needs the
    /// verb `create` also when it is asked with GET, as WebSocket does; a right to read
    /// `nodes/proxy` is not a right to a shell.
    pub(super) fn right(&self) -> Right {
        let area = self.target.area();
        let verb = match self.method.as_str() {
            _ if area == Area::Run => "create",
            "POST" => "create",
            "PUT" => "update",
            "PATCH" => "patch",
            "DELETE" => "delete",
            _ => "get",
        };
        Right { verb, subresources: area.subresources() }
    }

    /// What is to be served; none if that does not take the method.
    pub(super) fn served(self) -> Option<Target> {
        self.target.takes(&self.method).then_some(self.target)
    }
}

impl Target {
    fn parse(path: &str) -> Result<Self, NotCanonical> {
        // As kubelets and their clients write this one.
        let path = if path == "/runningpods/" { "/runningpods" } else { path };
        let rest = path.strip_prefix('/').ok_or(NotCanonical)?;
        let parts: Vec<_> = match rest {
            "" => Vec::new(),
            rest => rest.split('/').collect(),
        };
        if !parts.iter().all(|part| is_plain(part)) {
            return Err(NotCanonical);
        }
        let Some((first, names)) = parts.split_first() else {
            return Ok(Self::NotServed(Area::Other));
        };
        let area = Area::of(first)?;
        let is_named = matches!(area, Area::Run) || *first == "containerLogs";
        if is_named && names.iter().any(|name| name.contains(|c: char| c.is_ascii_uppercase())) {
            return Err(NotCanonical);
        }
        Ok(Self::of(&parts).unwrap_or(Self::NotServed(area)))
    }

    fn of(parts: &[&str]) -> Option<Self> {
        let stream = |kind, namespace: &str, pod: &str, uid: Option<&str>| Self::Stream {
            kind,
            namespace: namespace.into(),
            pod: pod.into(),
            uid: uid.map(str::to_owned),
        };
        let in_container = |what: &str, container: &str| match what {
            "exec" => Stream::Exec(container.into()),
            "run" => Stream::Run(container.into()),
            _ => Stream::Attach(container.into()),
        };
        Some(match *parts {
            ["containerLogs", ns, pod, container] => {
                stream(Stream::Logs(container.into()), ns, pod, None)
            }
            [what @ ("exec" | "attach" | "run"), ns, pod, container] => {
                stream(in_container(what, container), ns, pod, None)
            }
            [what @ ("exec" | "attach" | "run"), ns, pod, uid, container] => {
                stream(in_container(what, container), ns, pod, Some(uid))
            }
            ["portForward", ns, pod] => stream(Stream::PortForward, ns, pod, None),
            ["portForward", ns, pod, uid] => stream(Stream::PortForward, ns, pod, Some(uid)),
            ["pods"] => Self::Pods,
            ["runningpods"] => Self::RunningPods,
            ["stats", "summary"] => Self::Figures(Form::Summary),
            ["metrics", "resource"] => Self::Figures(Form::Resource),
            ["metrics", "cadvisor"] => Self::Figures(Form::Cadvisor),
            ["metrics"] => Self::Metrics,
            ["metrics", "probes"] => Self::Probes,
            ["healthz", ..] => Self::Healthz,
            ["configz"] => Self::Configz,
            _ => return None,
        })
    }

    /// By the value: a new one does not compile until it has said its area.
    fn area(&self) -> Area {
        match self {
            Self::Stream { kind: Stream::Logs(_), .. } => Area::Other,
            Self::Stream {
                kind: Stream::Exec(_) | Stream::Attach(_) | Stream::Run(_) | Stream::PortForward,
                ..
            } => Area::Run,
            Self::Pods | Self::RunningPods => Area::Pods,
            Self::Figures(Form::Summary) => Area::Stats,
            Self::Figures(Form::Resource | Form::Cadvisor) | Self::Metrics | Self::Probes => {
                Area::Metrics
            }
            Self::Healthz => Area::Healthz,
            Self::Configz => Area::Configz,
            Self::NotServed(area) => *area,
        }
    }

    fn takes(&self, method: &Method) -> bool {
        let (get, post) = (method == Method::GET, method == Method::POST);
        match self {
            Self::Stream { kind: Stream::Logs(_), .. } | Self::Pods | Self::RunningPods => get,
            Self::Figures(_) | Self::Metrics | Self::Probes | Self::Healthz | Self::Configz => get,
            Self::Stream { kind: Stream::Run(_), .. } => post,
            Self::Stream { .. } => get || post,
            Self::NotServed(_) => true,
        }
    }
}

impl Area {
    /// The area of all paths that begin with this word; an error for a word that differs from
    /// a known one in its case alone.
    fn of(first: &str) -> Result<Self, NotCanonical> {
        let known = WORDS.iter().find(|(word, _)| word.eq_ignore_ascii_case(first));
        match known {
            Some((word, area)) if *word == first => Ok(*area),
            Some(_) => Err(NotCanonical),
            None => Ok(Self::Other),
        }
    }

    fn subresources(self) -> &'static [&'static str] {
        match self {
            Self::Pods => &["pods", "proxy"],
            Self::Healthz => &["healthz", "proxy"],
            Self::Configz => &["configz", "proxy"],
            Self::Stats => &["stats"],
            Self::Metrics => &["metrics"],
            Self::Logs => &["log"],
            Self::Checkpoint => &["checkpoint"],
            Self::Run | Self::Other => &["proxy"],
        }
    }
}

/// Of characters that no reader of URLs changes, and no step in a folder.
fn is_plain(part: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    !part.is_empty() && part.bytes().all(plain) && part.contains(|c| c != '.')
}

/// With what the paths of a kubelet begin.
const WORDS: [(&str, Area); 13] = [
    ("pods", Area::Pods),
    ("runningpods", Area::Pods),
    ("healthz", Area::Healthz),
    ("configz", Area::Configz),
    ("stats", Area::Stats),
    ("metrics", Area::Metrics),
    ("logs", Area::Logs),
    ("checkpoint", Area::Checkpoint),
    ("containerLogs", Area::Other),
    ("exec", Area::Run),
    ("attach", Area::Run),
    ("run", Area::Run),
    ("portForward", Area::Run),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn right(method: &Method, path: &str) -> (&'static str, Vec<&'static str>) {
        let Right { verb, subresources } = Asked::parse(method, path).unwrap().right();
        (verb, subresources.to_vec())
    }

    #[test]
    fn the_narrow_subresource_comes_first() {
        for (path, expected) in [
            ("/pods", &["pods", "proxy"][..]),
            ("/runningpods/", &["pods", "proxy"]),
            ("/healthz/ping", &["healthz", "proxy"]),
            ("/configz", &["configz", "proxy"]),
            ("/metrics/cadvisor", &["metrics"]),
            ("/stats/summary", &["stats"]),
            ("/logs/kubelet.log", &["log"]),
            ("/containerLogs/a/b/c", &["proxy"]),
            // Not a subpath of /pods, so not readable with nodes/pods.
            ("/podsx", &["proxy"]),
        ] {
            assert_eq!(right(&Method::GET, path), ("get", expected.to_vec()), "{path}");
        }
    }

    #[test]
    fn reading_is_not_running() {
        assert_eq!(right(&Method::GET, "/containerLogs/a/b/c").0, "get");
        for path in ["/exec/a/b/c", "/attach/a/b/u/c", "/run/a/b/c", "/portForward/a/b", "/exec"] {
            for method in [Method::GET, Method::POST, Method::HEAD, Method::DELETE] {
                assert_eq!(right(&method, path), ("create", vec!["proxy"]), "{method} {path}");
            }
        }
    }

    #[test]
    fn a_path_has_one_form() {
        for path in [
            "",
            "*",
            "exec/a/b/c",
            "//exec/a/b/c",
            "///attach/a/b/c",
            "/exec//a/b/c",
            "/exec/a/b/c/",
            "/%2fexec/a/b/c",
            "/%65xec/a/b/c",
            "/exec/a/b/c%2f",
            "/./exec/a/b/c",
            "/x/../exec/a/b/c",
            "/exec/.../b/c",
            "/Exec/a/b/c",
            "/EXEC/a/b/c",
            "/containerlogs/a/b/c",
            "/portforward/a/b",
            "/exec/a/B/c",
            "/exec;x/a/b/c",
            "/exec/a/b/c ",
            "/pods/",
            "/runningpods//",
            "/",
            "/\u{e9}",
            "/exec\\a/b/c",
            "/exec/a/b/c\0",
        ] {
            let canonical = path == "/";
            assert_eq!(Asked::parse(&Method::GET, path).is_ok(), canonical, "{path:?}");
        }
    }
}

//! What nodes show the registry of the gate's image, where that asks who pulls. A node shows what a pod
//! names to pull any image of that pod, home's too: so the login is narrowed to the repository of the
//! gate's image, which no image of home's may be of, and lies in a Secret that home cannot name.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use mercato_protocol::text::shown;
use serde_json::{Map, Value, json};

use super::rule::refusal;
use crate::message::Refusal;

/// The Secret in each guest namespace whose pods have gates. Home's own of that name has another one
/// over there.
pub const SECRET: &str = "mercato-gate";
/// What home's Secret is called over there that is called as ours.
pub(super) const HOME_SECRET: &str = "mercato-home-gate";

/// What a registry is shown, for the images of one repository alone.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// Of the image, with its host, such as `registry.example/mercato`.
    repository: String,
    /// As a docker config has it for a registry.
    entry: Value,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a login for {}", self.repository)
    }
}

impl Login {
    /// The login for this image in a docker config, such as `~/.docker/config.json`: of all that are for its
    /// registry that one which says most of its repository, as a kubelet takes it.
    ///
    /// # Errors
    /// The text is no docker config, or has none for that registry.
    pub fn of(config: &str, image: &str) -> Result<Self, String> {
        let repository = repository(image);
        let config: Value = serde_json::from_str(config).unwrap_or_default();
        let Some(auths) = config["auths"].as_object() else {
            return Err("is no docker config with a login in it (auths)".to_owned());
        };
        let fitting = auths.iter().map(|(key, entry)| (registry(key), entry));
        let fitting = fitting.filter(|(key, entry)| opens(key, &repository) && is_login(entry));
        match fitting.max_by_key(|(key, _)| key.len()) {
            Some((_, entry)) => Ok(Self { entry: entry.clone(), repository }),
            None => Err(format!("has no login for {}", shown(&repository))),
        }
    }

    /// The Secret, without what it is called.
    pub(crate) fn secret(&self) -> Value {
        let auths: Map<_, _> =
            [(self.repository.clone(), self.entry.clone())].into_iter().collect();
        let config = BASE64.encode(json!({ "auths": auths }).to_string());
        json!({
            "type": "kubernetes.io/dockerconfigjson",
            "data": { ".dockerconfigjson": config },
        })
    }
}

/// Names the Secret in a guest's spec, before home's own.
pub(super) fn put_first(spec: &mut Value) {
    let ours = json!({ "name": SECRET });
    match spec["imagePullSecrets"].as_array_mut() {
        Some(list) => list.insert(0, ours),
        None => spec["imagePullSecrets"] = json!([ours]),
    }
}

/// That the login for the image `ours` opens no image of home's: the image of a container, or what else
/// is one.
///
/// # Errors
/// It does; `path` is the field's.
pub(super) fn check(image: &Value, path: &str, ours: Option<&str>) -> Result<(), Refusal> {
    let Some((ours, image)) = ours.zip(image.as_str()) else { return Ok(()) };
    if !opens(&repository(ours), &repository(image)) {
        return Ok(());
    }
    Err(refusal(
        path,
        "is of a repository that the provider alone has a login for: name another image",
    ))
}

/// Whether what a registry is shown under this key is shown for images of that repository: a kubelet
/// looks whether the one begins as the other does.
fn opens(key: &str, repository: &str) -> bool {
    let [(host, path), (of, below)] =
        [key, repository].map(|text| text.split_once('/').unwrap_or((text, "")));
    let [parts, named] = [host, of].map(|host| host.split('.').collect::<Vec<_>>());
    let same = |(part, named): (&&str, &&str)| match part.split_once('*') {
        Some((begin, end)) => {
            named.len() >= begin.len() + end.len()
                && named.starts_with(begin)
                && named.ends_with(end)
        }
        None => part == named,
    };
    parts.len() == named.len() && parts.iter().zip(&named).all(same) && below.starts_with(path)
}

/// The key of a docker config as a kubelet reads it: without what is about the registry's API.
fn registry(key: &str) -> String {
    let key = key.strip_prefix("https://").or(key.strip_prefix("http://")).unwrap_or(key);
    let (host, path) = key.split_once('/').unwrap_or((key, ""));
    let path = ["v1", "v2"].iter().find_map(|api| path.strip_prefix(api)).unwrap_or(path);
    let host = host.to_ascii_lowercase();
    let host = if host == "index.docker.io" { "docker.io" } else { &host };
    format!("{host}/{}", path.trim_matches('/')).trim_end_matches('/').to_owned()
}

/// The repository of an image, with its host, as a kubelet names it.
fn repository(image: &str) -> String {
    let image = image.split('@').next().unwrap_or_default();
    let at = image.rfind('/').map_or(0, |at| at + 1);
    let name = image[at..].split(':').next().unwrap_or_default();
    let image = format!("{}{name}", &image[..at]);
    let has_host = |(first, _): &(&str, &str)| first.contains(['.', ':']) || *first == "localhost";
    match image.split_once('/').filter(has_host) {
        Some((host, path)) => match host.to_ascii_lowercase().as_str() {
            "docker.io" | "index.docker.io" => format!("docker.io/{}", of_library(path)),
            host => format!("{host}/{path}"),
        },
        None => format!("docker.io/{}", of_library(&image)),
    }
}

/// What Docker Hub has without an owner is `library`'s.
fn of_library(path: &str) -> String {
    if path.contains('/') { path.to_owned() } else { format!("library/{path}") }
}

/// Not what a helper of Docker's keeps elsewhere.
fn is_login(entry: &Value) -> bool {
    let said = |field: &str| entry[field].as_str().is_some_and(|text| !text.is_empty());
    said("auth") || said("username") && said("password")
}

#[cfg(test)]
mod tests {
    use super::*;

    const IMAGE: &str = "registry.example:5000/team/mercato:1";

    fn login(auths: &Value) -> Result<Login, String> {
        Login::of(&json!({ "auths": auths }).to_string(), IMAGE)
    }

    #[test]
    fn a_login_is_for_one_repository_alone() {
        let all = json!({
            "https://registry.example:5000/v2/": { "auth": "all" },
            "registry.example:5000/team": { "auth": "team" },
            "registry.example:5000/other": { "auth": "other" },
            "registry.example": { "auth": "port" },
            "https://index.docker.io/v1/": { "auth": "hub" },
        });
        let secret = login(&all).unwrap().secret();
        let said = secret["data"][".dockerconfigjson"].as_str().unwrap();
        let said: Value = serde_json::from_slice(&BASE64.decode(said).unwrap()).unwrap();
        let only = json!({ "auths": { "registry.example:5000/team/mercato": { "auth": "team" } } });
        assert_eq!(said, only);
        assert!(!format!("{:?}", login(&all)).contains("auth"));

        let hub = json!({ "auths": all }).to_string();
        let of = |image: &str| Login::of(&hub, image).map(|login| login.entry["auth"].clone());
        assert_eq!(of("mercato/mercato:1@sha256:00"), Ok(json!("hub")));
        assert_eq!(of("registry.example:5000/third:1"), Ok(json!("all")));
        assert!(of("registry.other/mercato:1").unwrap_err().contains("registry.other/mercato"));
        let wild = json!({ "*.example:5000": { "username": "a", "password": "b" } });
        assert_eq!(login(&wild).unwrap().repository, "registry.example:5000/team/mercato");
    }

    #[test]
    fn what_is_no_login_says_so() {
        for none in ["", "[]", "{\"credsStore\":\"desktop\"}"] {
            assert!(Login::of(none, IMAGE).unwrap_err().contains("auths"), "{none}");
        }
        let helper = json!({ "registry.example:5000": {} });
        assert!(login(&helper).unwrap_err().contains("no login for"));
    }

    #[test]
    fn no_image_that_the_login_opens_is_homes() {
        let checked = |image: &str, ours: &str| check(&json!(image), "spec.x", Some(ours)).is_ok();
        let ours = "hub.example/mercato:1";
        for image in [
            "hub.example/mercato:2",
            "HUB.example/mercato@sha256:00",
            "hub.example/mercato-private/tool:1",
            "hub.example/mercato/part",
        ] {
            assert!(!checked(image, ours), "{image}");
        }
        for image in ["hub.example/other:1", "mercato:1", "hub.example:5000/mercato:1", ""] {
            assert!(checked(image, ours), "{image}");
        }
        assert!(check(&json!("hub.example/mercato:2"), "spec.x", None).is_ok());
        for image in ["mercato", "docker.io/mercato:2", "index.docker.io/library/mercato"] {
            assert!(!checked(image, "mercato:1"), "{image}");
        }
    }
}

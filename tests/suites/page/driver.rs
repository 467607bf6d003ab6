//! What this suite needs of W3C WebDriver (<https://www.w3.org/TR/webdriver2/>): commands in JSON, over HTTP
//! on loopback, to the program that steers a browser.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{Method, Request, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;

/// The key of an element's identifier, of the specification.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";
/// How long a command may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A session with a browser.
#[derive(Debug)]
pub(crate) struct Driver {
    at: SocketAddr,
    /// The path that all commands of the session begin with.
    session: String,
}

/// An element of the page that is shown.
#[derive(Debug)]
pub(crate) struct Element<'a> {
    driver: &'a Driver,
    id: String,
}

/// By what an element is found.
#[derive(Clone, Copy, Debug)]
pub(crate) enum By<'a> {
    Css(&'a str),
    /// The whole text of a link.
    Link(&'a str),
}

impl By<'_> {
    fn params(self) -> Value {
        let (using, value) = match self {
            By::Css(css) => ("css selector", css),
            By::Link(text) => ("link text", text),
        };
        json!({ "using": using, "value": value })
    }
}

impl Driver {
    /// Begins a session, with these capabilities of the browser.
    ///
    /// # Errors
    /// When nobody listens there, or no browser comes up.
    pub(crate) async fn begin(at: SocketAddr, capabilities: Value) -> Result<Self> {
        let wanted = json!({ "capabilities": { "alwaysMatch": capabilities } });
        let session = send(at, Method::POST, "/session", Some(&wanted)).await?;
        let id = session["sessionId"].as_str().context("the session has no identifier")?;
        Ok(Self { at, session: format!("/session/{id}") })
    }

    /// Ends the session, and the browser with it.
    pub(crate) async fn end(&self) -> Result<()> {
        send(self.at, Method::DELETE, &self.session, None).await.map(drop)
    }

    /// Loads this address in the tab.
    pub(crate) async fn goto(&self, url: &str) -> Result<()> {
        self.post("url", json!({ "url": url })).await.map(drop)
    }

    /// What the address bar has.
    pub(crate) async fn url(&self) -> Result<String> {
        text(&self.get("url").await?)
    }

    /// To what was shown before.
    pub(crate) async fn back(&self) -> Result<()> {
        self.post("back", json!({})).await.map(drop)
    }

    pub(crate) async fn title(&self) -> Result<String> {
        text(&self.get("title").await?)
    }

    /// What a script in the page returns.
    pub(crate) async fn execute(&self, script: &str) -> Result<Value> {
        self.post("execute/sync", json!({ "script": script, "args": [] })).await
    }

    /// What a script in the page gives to the function that is its last argument.
    pub(crate) async fn execute_async(&self, script: &str) -> Result<Value> {
        self.post("execute/async", json!({ "script": script, "args": [] })).await
    }

    /// The first such element.
    ///
    /// # Errors
    /// When there is none.
    pub(crate) async fn find(&self, by: By<'_>) -> Result<Element<'_>> {
        let found = self.post("element", by.params()).await?;
        self.element(&found)
    }

    /// All such elements, in their order.
    pub(crate) async fn find_all(&self, by: By<'_>) -> Result<Vec<Element<'_>>> {
        let found = self.post("elements", by.params()).await?;
        found.as_array().into_iter().flatten().map(|one| self.element(one)).collect()
    }

    /// The element that has the focus.
    pub(crate) async fn active(&self) -> Result<Element<'_>> {
        let found = self.get("element/active").await?;
        self.element(&found)
    }

    /// The tab that commands go to.
    pub(crate) async fn tab(&self) -> Result<String> {
        text(&self.get("window").await?)
    }

    /// Opens a tab, and sends commands there from now on.
    pub(crate) async fn open_tab(&self) -> Result<()> {
        let made = self.post("window/new", json!({ "type": "tab" })).await?;
        self.switch_to(&text(&made["handle"])?).await
    }

    /// Sends commands to this tab from now on.
    pub(crate) async fn switch_to(&self, tab: &str) -> Result<()> {
        self.post("window", json!({ "handle": tab })).await.map(drop)
    }

    /// Sends commands into the first frame of the page.
    pub(crate) async fn enter_frame(&self) -> Result<()> {
        self.post("frame", json!({ "id": 0 })).await.map(drop)
    }

    /// What is shown, as PNG.
    pub(crate) async fn screenshot(&self) -> Result<Vec<u8>> {
        Ok(STANDARD.decode(text(&self.get("screenshot").await?)?)?)
    }

    /// A command of Chromium's own protocol.
    pub(crate) async fn own(&self, command: &str, params: Value) -> Result<Value> {
        self.post("goog/cdp/execute", json!({ "cmd": command, "params": params })).await
    }

    fn element(&self, found: &Value) -> Result<Element<'_>> {
        Ok(Element { driver: self, id: text(&found[ELEMENT])? })
    }

    async fn get(&self, command: &str) -> Result<Value> {
        send(self.at, Method::GET, &format!("{}/{command}", self.session), None).await
    }

    async fn post(&self, command: &str, params: Value) -> Result<Value> {
        send(self.at, Method::POST, &format!("{}/{command}", self.session), Some(&params)).await
    }
}

impl Element<'_> {
    pub(crate) async fn click(&self) -> Result<()> {
        self.does("click", json!({})).await
    }

    /// Types this where it is.
    pub(crate) async fn types(&self, keys: &str) -> Result<()> {
        self.does("value", json!({ "text": keys })).await
    }

    async fn does(&self, command: &str, params: Value) -> Result<()> {
        self.driver.post(&format!("element/{}/{command}", self.id), params).await.map(drop)
    }
}

/// The `value` of the answer to a command; what went wrong instead, as an error.
async fn send(at: SocketAddr, method: Method, path: &str, body: Option<&Value>) -> Result<Value> {
    let command = format!("{method} {path}");
    let answer = async {
        let stream = TokioIo::new(TcpStream::connect(at).await?);
        let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await?;
        let connection = tokio::spawn(connection);
        let body = body.map(Value::to_string).unwrap_or_default();
        let request = Request::builder().method(method).uri(path);
        let request = request.header(header::HOST, at.to_string());
        let request = request.header(header::CONTENT_TYPE, "application/json");
        let answer = sender.send_request(request.body(Full::new(Bytes::from(body)))?).await?;
        let bytes = answer.into_body().collect().await?.to_bytes();
        connection.abort();
        let mut answer: Value = serde_json::from_slice(&bytes)?;
        anyhow::Ok(answer["value"].take())
    };
    let limited = tokio::time::timeout(PATIENCE, answer).await;
    let value = limited.with_context(|| format!("{command}: no answer"))?;
    let value = value.with_context(|| command.clone())?;
    match value["error"].as_str() {
        None => Ok(value),
        Some(error) => {
            let message = value["message"].as_str().unwrap_or_default();
            bail!("{command}: {error}: {message}")
        }
    }
}

fn text(value: &Value) -> Result<String> {
    value.as_str().map(str::to_owned).with_context(|| format!("this is no text: {value}"))
}

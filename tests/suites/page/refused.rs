//! Who may not see the page, and what may not leave it.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use mercato_tests::suite::Stage;
use tokio::net::{TcpListener, TcpStream};

use crate::browser::Browser;
use crate::daemons::{Daemon, PATIENCE, Page};

/// Each of them is refused with its code, and nobody finds the token.
pub(crate) async fn refused(stage: &Stage) -> Result<()> {
    let shown = Daemon::start(stage, "rome", "cpu=16,memory=64Gi,pods=110", &[]).await?;
    let page = shown.page(&["--idle", "4s"])?;
    by_code(&page).await?;
    ensure!(hidden(&page)?, "the token is in the arguments of a program");
    framed(&page).await.context("a page that shows ours inside it")?;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let [host, token] = [("host", page.host()), ("mercato-token", page.token.as_str())];
    let over = ask(&page, "/news", &[host, token, ("hx-request", "true")]).await?;
    ensure!(over.0 == StatusCode::FORBIDDEN && over.1.contains("Nobody has looked"), "{over:?}");
    Ok(())
}

async fn by_code(page: &Page) -> Result<()> {
    let host = ("host", page.host());
    let token = ("mercato-token", page.token.as_str());
    let script = ("hx-request", "true");
    let cases = [
        ("/", vec![host], 200),
        ("/news", vec![host, token, script], 200),
        ("/news", vec![host, script], 403),
        ("/news", vec![host, script, ("mercato-token", "AAAA")], 403),
        ("/", vec![("host", "rome.example:80")], 421),
        ("/news", vec![("host", "rome.example:80"), token, script], 421),
        ("/news", vec![host, token, script, ("origin", "http://rome.example")], 403),
        ("/news", vec![host, token, script, ("sec-fetch-site", "cross-site")], 403),
        ("/", vec![host, ("sec-fetch-dest", "iframe")], 403),
        ("/save/x.csv", vec![host], 403),
    ];
    for (path, headers, code) in cases {
        let (status, text) = ask(page, path, &headers).await?;
        ensure!(status.as_u16() == code, "{path} {headers:?}: {status} {text}");
        ensure!(!text.contains(&page.token), "{path} tells the token");
    }
    Ok(())
}

/// One request, with these headers and no other.
async fn ask(page: &Page, path: &str, headers: &[(&str, &str)]) -> Result<(StatusCode, String)> {
    let stream = TcpStream::connect(page.host()).await?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake::<_, Empty<Bytes>>(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let mut request = Request::get(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = sender.send_request(request.body(Empty::new())?).await?;
    let status = answer.status();
    let body = answer.into_body().collect().await?.to_bytes();
    Ok((status, String::from_utf8_lossy(&body).into_owned()))
}

/// No program has the token among its arguments.
fn hidden(page: &Page) -> Result<bool> {
    for process in fs::read_dir("/proc")? {
        let line = fs::read(process?.path().join("cmdline")).unwrap_or_default();
        if String::from_utf8_lossy(&line).contains(&page.token) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Somebody else's page, on another port, that shows ours inside it and asks for data.
async fn framed(page: &Page) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let evil = format!("http://127.0.0.1:{}/", listener.local_addr()?.port());
    let text = format!(
        "<!doctype html><title>evil</title><iframe src=\"{0}/market\"></iframe><script>\
         fetch('{0}/news', {{headers: {{'HX-Request': 'true'}}}}).then(() => document.title = 'read',\
         () => document.title = 'refused')</script>",
        page.site
    );
    let serving = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
            let mut request = [0; 4_096];
            let _ = stream.read(&mut request).await;
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\n\r\n";
            let _ = stream.write_all(format!("{head}{text}").as_bytes()).await;
        }
    });
    let browser = Browser::start().await?;
    browser.driver.goto(&evil).await?;
    let told = async || Ok(browser.driver.title().await? == "refused");
    mercato_tests::wait::until("the browser refuses it", PATIENCE, told).await?;
    let inside = browser.driver.enter_frame().await;
    if inside.is_ok() {
        let text = browser.text().await?;
        ensure!(!text.contains("Market"), "it is shown: {text}");
    }
    serving.abort();
    browser.end().await
}

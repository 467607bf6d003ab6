//! Debian's Chromium, without a window, and a proxy that must hear nothing.

use std::io::Read as _;
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, ensure};
use mercato_tests::wait;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::daemons::{PATIENCE, Page, Running};
use crate::driver::{By, Driver, Element};

/// The programs, as Debian has them.
const PROGRAMS: [&str; 2] = ["/usr/bin/chromium", "/usr/bin/chromedriver"];
/// What a browser would ask of others by itself is left out, and what a machine without a screen lacks.
const OPTIONS: [&str; 11] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-features=AutofillServerCommunication",
    "--no-first-run",
    "--hide-scrollbars",
    "--proxy-bypass-list=127.0.0.1;[::1];localhost",
];

/// Whom Debian's Chromium asks by itself, whatever page it shows: of its first tab, its clock, its parts, its
/// accounts.
const BY_ITSELF: [&str; 4] =
    ["start.duckduckgo.com", "clients2.google.com", "update.googleapis.com", "accounts.google.com"];

/// A browser that a test drives.
pub(crate) struct Browser {
    pub(crate) driver: Driver,
    heard: Arc<Mutex<Vec<String>>>,
    _running: Running,
    _profile: TempDir,
}

impl Browser {
    /// Starts one.
    ///
    /// # Errors
    /// When it is not installed, or does not come up.
    pub(crate) async fn start() -> Result<Self> {
        for program in PROGRAMS {
            let there = std::path::Path::new(program).exists();
            ensure!(there, "{program} is missing: apt-get install chromium chromium-driver");
        }
        let (proxy, heard) = proxy()?;
        let free = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let profile = TempDir::new()?;
        let mut program = Command::new(PROGRAMS[1]);
        program.arg(format!("--port={}", free.port())).env("HOME", profile.path());
        program.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let running = Running::new(program.spawn()?);
        let mut options: Vec<_> = OPTIONS.map(str::to_owned).into();
        options.push(format!("--proxy-server=http://127.0.0.1:{proxy}"));
        options.push(format!("--user-data-dir={}", profile.path().join("profile").display()));
        let wanted = json!({ "goog:chromeOptions": { "args": options } });
        let start = std::time::Instant::now();
        let driver = loop {
            match Driver::begin(free, wanted.clone()).await {
                Ok(driver) => break driver,
                Err(error) if start.elapsed() > PATIENCE => return Err(error),
                Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
            }
        };
        Ok(Self { driver, heard, _running: running, _profile: profile })
    }

    /// What somebody asked of the world outside, but for what the browser asks by itself.
    fn heard(&self) -> Vec<String> {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let of_page = |line: &String| !BY_ITSELF.iter().any(|host| line.contains(host));
        heard.into_iter().filter(of_page).collect()
    }

    /// Opens the page as the person does who has started it.
    pub(crate) async fn open(&self, page: &Page) -> Result<()> {
        self.driver.goto(&page.address()).await?;
        self.sees("main[data-here=now]").await.map(|_| ())
    }

    /// The element, as soon as it is there.
    pub(crate) async fn sees(&self, css: &str) -> Result<Element<'_>> {
        let is_there = async || Ok(!self.driver.find_all(By::Css(css)).await?.is_empty());
        let waited = wait::until(&format!("{css} is there"), PATIENCE, is_there).await;
        if let Err(error) = waited {
            return Err(error.context(self.text().await?));
        }
        self.driver.find(By::Css(css)).await
    }

    /// Waits until the screen has this text.
    pub(crate) async fn reads(&self, text: &str) -> Result<()> {
        let has = async || Ok(self.text().await?.contains(text));
        let waited = wait::until(&format!("{text:?} is shown"), PATIENCE, has).await;
        match waited {
            Ok(()) => Ok(()),
            Err(error) => Err(error.context(self.text().await?)),
        }
    }

    /// All that a person reads.
    pub(crate) async fn text(&self) -> Result<String> {
        let text = self.driver.execute("return document.body.innerText").await?;
        Ok(text.as_str().unwrap_or_default().to_owned())
    }

    /// What a script in the page answers.
    pub(crate) async fn asks(&self, script: &str) -> Result<Value> {
        self.driver.execute(script).await
    }

    /// Types into what has the focus.
    pub(crate) async fn types(&self, keys: &str) -> Result<()> {
        self.driver.active().await?.types(keys).await
    }

    /// Another size of the window, in another theme.
    pub(crate) async fn looks(&self, width: u32, height: u32, theme: &str) -> Result<()> {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1,
            "mobile": false });
        let media = json!({ "features": [{ "name": "prefers-color-scheme", "value": theme }] });
        self.driver.own("Emulation.setDeviceMetricsOverride", size).await?;
        self.driver.own("Emulation.setEmulatedMedia", media).await.map(drop)
    }

    /// Ends it, and fails where anything has left the machine.
    pub(crate) async fn end(self) -> Result<()> {
        let heard = self.heard();
        self.driver.end().await?;
        ensure!(heard.is_empty(), "these left the machine: {heard:?}");
        Ok(())
    }
}

/// Listens where a browser would ask for everything that is not on this machine.
fn proxy() -> Result<(u16, Arc<Mutex<Vec<String>>>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let told = heard.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut line = [0; 256];
            let mut stream = stream;
            let _ = stream.set_read_timeout(Some(Duration::from_secs(1)));
            let read = stream.read(&mut line).unwrap_or(0);
            let said = String::from_utf8_lossy(line.get(..read).unwrap_or_default());
            let first = said.lines().next().unwrap_or("nothing").to_owned();
            told.lock().unwrap_or_else(PoisonError::into_inner).push(first);
        }
    });
    Ok((port, heard))
}

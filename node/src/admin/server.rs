//! The daemon's end of the admin API.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, State};
use axum::routing::post;
use axum::{Json, Router};
use http::StatusCode;
use tokio::net::UnixListener;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

use super::{Answer, Class, OperatorApi, PATH, Problem, Request};
use crate::limits;

/// Answers on a socket until it is dropped.
pub(crate) struct Server {
    socket: PathBuf,
    serving: AbortHandle,
}

struct Shared {
    api: Arc<dyn OperatorApi>,
    /// How many more may ask.
    room: Semaphore,
}

impl Server {
    /// Opens the socket, for the owner alone, in place of one that an earlier daemon left;
    /// where nothing can be written there now, as soon as it can. The caller makes sure that
    /// no other daemon runs on the same folder.
    pub(crate) fn start(socket: &Path, api: Arc<dyn OperatorApi>) -> io::Result<Self> {
        let listener = match listen(socket) {
            Err(error) if may_pass(&error) => {
                // Once at the start.
                tracing::warn!(socket = %socket.display(), %error, "no command is answered for now");
                None
            }
            listener => Some(listener?),
        };
        let serving = tokio::spawn(serve(socket.to_owned(), listener, api)).abort_handle();
        Ok(Self { socket: socket.to_owned(), serving })
    }
}

/// The disk is full, or may only be read.
pub(super) fn may_pass(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    [QuotaExceeded, ReadOnlyFilesystem, StorageFull].contains(&error.kind())
}

fn listen(socket: &Path) -> io::Result<UnixListener> {
    // Made beside and moved: at no time may others open it.
    let made = socket.with_extension("new");
    if let Err(error) = std::fs::remove_file(&made)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    let listener = UnixListener::bind(&made)?;
    std::fs::set_permissions(&made, std::fs::Permissions::from_mode(0o600))?;
    std::fs::rename(&made, socket)?;
    Ok(listener)
}

/// Answers, on this listener or else on one that is made as soon as it can be.
pub(super) async fn serve(
    socket: PathBuf,
    mut listener: Option<UnixListener>,
    api: Arc<dyn OperatorApi>,
) {
    let listener = loop {
        match listener {
            Some(listener) => break listener,
            None => tokio::time::sleep(limits::ADMIN_RETRY).await,
        }
        listener = listen(&socket).ok();
    };
    let shared = Shared { api, room: Semaphore::new(limits::ADMIN_REQUESTS) };
    let routes = Router::new()
        .route(PATH, post(answer))
        .layer(DefaultBodyLimit::max(limits::ADMIN_REQUEST_BYTES))
        .with_state(Arc::new(shared));
    if let Err(error) = axum::serve(listener, routes).await {
        tracing::error!(%error, "no command is answered any more");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
        if let Err(error) = std::fs::remove_file(&self.socket) {
            tracing::debug!(socket = %self.socket.display(), %error, "the admin socket stays");
        }
    }
}

async fn answer(
    State(shared): State<Arc<Shared>>,
    Json(request): Json<Request>,
) -> Result<Json<Answer>, (StatusCode, Json<Problem>)> {
    let answer = match shared.room.try_acquire() {
        Ok(_permit) => shared.api.ask(request).await,
        Err(_) => Err(Problem::failed("the daemon is busy with too many requests")
            .todo("try again in a moment")),
    };
    answer.map(Json).map_err(|problem| (status(problem.class), Json(problem)))
}

/// What HTTP calls a problem of that class.
pub(crate) fn status(class: Class) -> StatusCode {
    match class {
        Class::Failed | Class::Interrupted => StatusCode::INTERNAL_SERVER_ERROR,
        Class::Usage => StatusCode::BAD_REQUEST,
        Class::NoMatch => StatusCode::NOT_FOUND,
        Class::Refused => StatusCode::CONFLICT,
        Class::Unreachable => StatusCode::SERVICE_UNAVAILABLE,
        Class::TimedOut => StatusCode::GATEWAY_TIMEOUT,
    }
}

//! A command that ends before its input is read.

use super::*;

/// Hears nothing, and says how it ended when its client has spoken for some time.
pub(super) fn exec() -> Opened {
    let ((input, hears), (mut says, output)) = (tokio::io::duplex(64), tokio::io::duplex(64));
    drop(hears);
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(200)).await;
        says.write_all(b"exit 3").await.unwrap();
    });
    let io = Box::new(tokio::io::join(output, input));
    Opened::Upgraded { protocol: Some("v5.channel.k8s.io".into()), io }
}

#[tokio::test]
async fn how_it_ended_is_heard_by_who_speaks() {
    let bed = bed(&["create proxy"]).await;
    let stream = connect(bed.listener.address(), &bed.ca.pem(), None).await.unwrap();
    let (mut hears, mut says) = tokio::io::split(stream);
    let head = "POST /exec/shop/web/deaf?command=sh&input=1&output=1 HTTP/1.1\r\nhost: t\r\n\
        authorization: Bearer good\r\nconnection: Upgrade\r\nupgrade: SPDY/3.1\r\n\r\n";
    says.write_all(head.as_bytes()).await.unwrap();
    let head = read_until(&mut hears, "\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    // More than any buffer on the way holds.
    let speaking = tokio::spawn(async move { says.write_all(&vec![7; 16 << 20]).await });
    let mut heard = String::new();
    hears.read_to_string(&mut heard).await.unwrap();
    assert_eq!(heard, "exit 3");
    assert!(speaking.await.unwrap().is_ok());
}

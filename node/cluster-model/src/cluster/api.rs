//! The API server: create, apply, status, delete, list, watch.

use mercato_offload::time;
use mercato_protocol::time::Now;
use serde_json::{Value, json};

use super::volumes::{CLAIM, VOLUME, add_protection, keep_of_claim};
use super::{Cluster, Event, Key};
use crate::{ApiError, limits};

/// What an apply leaves as it is, if the object is there.
const KEPT: [&str; 5] =
    ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"];

impl Cluster {
    /// A node with a kubelet. Resources as `("cpu", "8")`.
    pub fn add_node(&mut self, now: Now, name: &str, resources: &[(&str, &str)], labels: &Value) {
        let resources: Value =
            resources.iter().map(|(name, amount)| (name.to_string(), json!(amount))).collect();
        let mut all = json!({ "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux" });
        for (key, value) in labels.as_object().into_iter().flatten() {
            all[key] = value.clone();
        }
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": { "name": name, "labels": all },
            "status": {
                "capacity": resources, "allocatable": resources,
                "conditions": [{ "type": "Ready", "status": "True" }],
            },
        });
        self.kubelets.insert(name.to_owned());
        self.store(now, Key::new("Node", "", name), node);
    }

    /// Makes an object.
    ///
    /// # Errors
    ///
    /// 409 if it is there, 404 if its namespace is not, 403 if that is going away.
    pub fn create(&mut self, now: Now, object: Value) -> Result<Value, ApiError> {
        self.fault()?;
        let key = key_of(&object)?;
        if self.objects.contains_key(&key) {
            return Err(ApiError::already_exists(&key.name));
        }
        if self.objects.len() >= limits::OBJECTS {
            return Err(ApiError::internal("etcdserver: mvcc: database space exceeded"));
        }
        if !key.namespace.is_empty() {
            let namespace = self.get(&Key::new("Namespace", "", &key.namespace));
            let namespace = namespace.ok_or_else(|| ApiError::not_found(&key.namespace))?;
            if !namespace["metadata"]["deletionTimestamp"].is_null() {
                let message = format!("namespace {} is being terminated", key.namespace);
                return Err(ApiError::forbidden(&message));
            }
        }
        let mut object = object;
        self.made += 1;
        object["metadata"]["uid"] = json!(format!("{}-{:06}", self.name, self.made));
        object["metadata"]["creationTimestamp"] = json!(time::rfc3339(now.wall_ms));
        object["metadata"]["generation"] = json!(1);
        if key.kind == "Pod" {
            object["status"] = json!({ "phase": "Pending", "qosClass": "Burstable" });
        }
        add_protection(&mut object);
        Ok(self.store(now, key, object))
    }

    /// Makes an object or writes it anew, but for its status. A uid in it is a condition.
    ///
    /// # Errors
    ///
    /// Those of [`Cluster::create`]; 409 if the uid is another.
    pub fn apply(&mut self, now: Now, object: Value) -> Result<Value, ApiError> {
        let key = key_of(&object)?;
        let Some(old) = self.objects.get(&key).cloned() else { return self.create(now, object) };
        self.fault()?;
        check_uid(&old, object["metadata"]["uid"].as_str())?;
        let mut object = object;
        for name in KEPT {
            object["metadata"][name] = old["metadata"][name].clone();
        }
        if key.kind == CLAIM {
            keep_of_claim(&old, &mut object);
        }
        for (outer, name) in [("spec", "nodeName"), ("spec", "volumeName")] {
            if !old[outer][name].is_null() {
                object[outer][name] = old[outer][name].clone();
            }
        }
        if object["spec"] != old["spec"] {
            let generation = old["metadata"]["generation"].as_u64().unwrap_or(1);
            object["metadata"]["generation"] = json!(generation + 1);
        }
        object["status"] = old["status"].clone();
        Ok(self.store(now, key, object))
    }

    /// Writes the status of an object.
    ///
    /// # Errors
    ///
    /// 404; 409 if `uid` is given and another.
    pub fn write_status(
        &mut self,
        now: Now,
        key: &Key,
        uid: Option<&str>,
        status: Value,
    ) -> Result<Value, ApiError> {
        self.fault()?;
        let mut object = self.existing(key, uid)?;
        object["status"] = status;
        Ok(self.store(now, key.clone(), object))
    }

    /// Takes an annotation away.
    ///
    /// # Errors
    ///
    /// 404; 409 if `uid` is given and another.
    pub fn unmark(
        &mut self,
        now: Now,
        key: &Key,
        uid: Option<&str>,
        annotation: &str,
    ) -> Result<(), ApiError> {
        self.fault()?;
        let mut object = self.existing(key, uid)?;
        if let Some(annotations) = object["metadata"]["annotations"].as_object_mut() {
            annotations.remove(annotation);
        }
        self.store(now, key.clone(), object);
        Ok(())
    }

    /// Takes a finalizer off; the object goes if its deletion waited only for that.
    ///
    /// # Errors
    ///
    /// 404; 409 if `uid` is given and another.
    pub fn release(
        &mut self,
        now: Now,
        key: &Key,
        uid: Option<&str>,
        finalizer: &str,
    ) -> Result<(), ApiError> {
        self.fault()?;
        let mut object = self.existing(key, uid)?;
        if let Some(list) = object["metadata"]["finalizers"].as_array_mut() {
            list.retain(|name| name != finalizer);
        }
        self.store(now, key.clone(), object);
        Ok(())
    }

    /// Deletes. A pod that a kubelet runs is stopped first, within the grace in seconds.
    ///
    /// # Errors
    ///
    /// 404; 409 if `uid` is given and another.
    pub fn delete(
        &mut self,
        now: Now,
        key: &Key,
        uid: Option<&str>,
        grace_s: Option<u64>,
    ) -> Result<(), ApiError> {
        self.fault()?;
        let mut object = self.existing(key, uid)?;
        let mut grace = 0;
        if key.kind == "Pod" {
            let own = object["spec"]["terminationGracePeriodSeconds"].as_u64().unwrap_or(30);
            let ended = matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
            let bound = !object["spec"]["nodeName"].is_null();
            grace = if ended || !bound { 0 } else { grace_s.unwrap_or(own) };
            let before = object["metadata"]["deletionGracePeriodSeconds"].as_u64();
            grace = before.map_or(grace, |before| before.min(grace));
        }
        if object["metadata"]["deletionTimestamp"].is_null() {
            object["metadata"]["deletionTimestamp"] = json!(time::rfc3339(now.wall_ms));
        }
        object["metadata"]["deletionGracePeriodSeconds"] = json!(grace);
        self.store(now, key.clone(), object);
        if key.kind == "Pod" {
            self.told_to_stop(now, key, grace);
        }
        if key.kind == "Namespace" {
            let inside: Vec<Key> =
                self.objects.keys().filter(|inner| inner.namespace == key.name).cloned().collect();
            for inner in inside {
                self.delete(now, &inner, None, None)?;
            }
        }
        Ok(())
    }

    /// An object as it is.
    pub fn get(&self, key: &Key) -> Option<&Value> {
        self.objects.get(key)
    }

    /// All objects of a kind, and the version to watch from.
    pub fn list(&self, kind: &str) -> (u64, Vec<Value>) {
        (self.version, self.objects(kind).map(|(_, object)| object.clone()).collect())
    }

    /// All objects of a kind, without copies.
    pub fn objects(&self, kind: &str) -> impl Iterator<Item = (&Key, &Value)> {
        let of_kind = self.objects.range(Key::new(kind, "", "")..);
        of_kind.take_while(move |(key, _)| key.kind == kind)
    }

    /// The version that a watch of what there is now goes on from.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// What happened to objects of a kind after a version, each with its own version.
    ///
    /// # Errors
    ///
    /// 410 if that is too long ago.
    pub fn events_since(&self, kind: &str, version: u64) -> Result<Vec<(u64, Event)>, ApiError> {
        let later = self.later(kind, version)?;
        Ok(later.map(|(at, _, event)| (*at, event.clone())).collect())
    }

    /// What something happened to after a version, as often as it did.
    ///
    /// # Errors
    ///
    /// 410 if that is too long ago.
    pub fn touched_since(
        &self,
        kind: &str,
        version: u64,
    ) -> Result<impl Iterator<Item = &Key>, ApiError> {
        Ok(self.later(kind, version)?.map(|(_, key, _)| key))
    }

    fn later(
        &self,
        kind: &str,
        version: u64,
    ) -> Result<impl Iterator<Item = &(u64, Key, Event)>, ApiError> {
        let oldest = self.events.front().map_or(self.version + 1, |(first, _, _)| *first);
        if version + 1 < oldest {
            return Err(ApiError::expired());
        }
        let first = self.events.partition_point(|(at, _, _)| *at <= version);
        Ok(self.events.range(first..).filter(move |(_, key, _)| key.kind == kind))
    }

    /// Writes an object, or removes it if its deletion is complete.
    pub(crate) fn store(&mut self, now: Now, key: Key, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let event = if self.is_complete(&key, &object) {
            self.objects.remove(&key);
            self.due.remove(&key);
            self.addresses.give_back(&object);
            Event::Deleted(object.clone())
        } else {
            self.objects.insert(key.clone(), object.clone());
            Event::Applied(object.clone())
        };
        let gone = matches!(event, Event::Deleted(_));
        if self.events.len() >= limits::EVENTS {
            self.events.pop_front();
        }
        self.events.push_back((self.version, key.clone(), event));
        if gone && !key.namespace.is_empty() {
            self.close_namespace(now, &key.namespace);
        }
        object
    }

    fn is_complete(&self, key: &Key, object: &Value) -> bool {
        let metadata = &object["metadata"];
        let held = metadata["finalizers"].as_array().is_some_and(|list| !list.is_empty());
        let inhabited =
            key.kind == "Namespace" && self.objects.keys().any(|inner| inner.namespace == key.name);
        metadata["deletionGracePeriodSeconds"] == json!(0) && !held && !inhabited
    }

    /// A namespace that is being deleted goes with the last object in it.
    fn close_namespace(&mut self, now: Now, name: &str) {
        let key = Key::new("Namespace", "", name);
        if let Some(object) = self.objects.get(&key).cloned()
            && self.is_complete(&key, &object)
        {
            self.store(now, key, object);
        }
    }

    fn existing(&self, key: &Key, uid: Option<&str>) -> Result<Value, ApiError> {
        let object = self.objects.get(key).ok_or_else(|| ApiError::not_found(&key.name))?;
        check_uid(object, uid)?;
        Ok(object.clone())
    }

    fn fault(&mut self) -> Result<(), ApiError> {
        self.faults.pop_front().map_or(Ok(()), Err)
    }
}

fn check_uid(object: &Value, uid: Option<&str>) -> Result<(), ApiError> {
    if uid.is_some_and(|uid| object["metadata"]["uid"] != uid) {
        return Err(ApiError::conflict("Precondition failed: the uid is another"));
    }
    Ok(())
}

fn key_of(object: &Value) -> Result<Key, ApiError> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (kind, metadata) = (text(&object["kind"]), &object["metadata"]);
    let (namespace, name) = (text(&metadata["namespace"]), text(&metadata["name"]));
    let global = [VOLUME, "Node", "Namespace"].contains(&kind.as_str());
    if kind.is_empty() || name.is_empty() || namespace.is_empty() != global {
        return Err(ApiError::invalid("kind, metadata.name or metadata.namespace"));
    }
    Ok(Key { kind, namespace, name })
}

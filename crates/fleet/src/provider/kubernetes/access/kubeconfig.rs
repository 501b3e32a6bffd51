//! The file by which people and scripts reach a cluster.

use std::path::{Path, PathBuf};

use yaml_rust2::{Yaml, YamlLoader};

use super::{Access, Identity, KeyPem, KubernetesError, certificates, read_file, read_text};

/// Reads the context that is named, or the current one.
pub(super) fn read(path: &Path, context: Option<&str>) -> Result<Access, KubernetesError> {
    let text = read_text(path)?;
    let file = File { path, document: &parse(path, &text)? };
    let context = match context.or_else(|| file.document["current-context"].as_str()) {
        Some(name) => file.entry("contexts", "context", name)?,
        None => return Err(file.wrong("it has no current-context; name one with `context` in [kubernetes]")),
    };
    let cluster = file.entry("clusters", "cluster", file.text(context, "cluster")?)?;
    let user = file.entry("users", "user", file.text(context, "user")?)?;
    let server = file.text(cluster, "server")?.trim_end_matches('/').to_owned();
    if !server.starts_with("https://") || server.contains('@') {
        return Err(file.wrong("its server is no https:// address"));
    }
    if cluster["insecure-skip-tls-verify"].as_bool() == Some(true) {
        return Err(
            file.wrong("insecure-skip-tls-verify would send the token to anybody; name the certificate-authority")
        );
    }
    let authority = file.data(cluster, "certificate-authority")?;
    let authority = authority.ok_or_else(|| file.wrong("its cluster names no certificate-authority"))?;
    Ok(Access {
        server,
        authorities: certificates("the kubeconfig's certificate-authority", &authority)?,
        identity: file.identity(user)?,
        namespace: context["namespace"].as_str().map(str::to_owned),
    })
}

fn parse(path: &Path, text: &str) -> Result<Yaml, KubernetesError> {
    let wrong = |problem: String| KubernetesError::Kubeconfig { path: path.to_owned(), problem };
    // Aliases can make a small file large, and no tool writes any.
    if text.lines().any(|line| line.trim_start_matches([' ', '-']).split(": ").any(|part| part.starts_with('*'))) {
        return Err(wrong("it has aliases; write their values".to_owned()));
    }
    let documents = YamlLoader::load_from_str(text).map_err(|error| wrong(error.to_string()))?;
    documents.into_iter().next().ok_or_else(|| wrong("it is empty".to_owned()))
}

struct File<'a> {
    path: &'a Path,
    document: &'a Yaml,
}

impl<'a> File<'a> {
    fn wrong(&self, problem: &str) -> KubernetesError {
        KubernetesError::Kubeconfig { path: self.path.to_owned(), problem: problem.to_owned() }
    }

    /// The settings of the entry called `name` in a list.
    fn entry(&self, list: &str, inner: &str, name: &str) -> Result<&'a Yaml, KubernetesError> {
        let entries = self.document[list].as_vec().map(Vec::as_slice).unwrap_or_default();
        let found = entries.iter().find(|entry| entry["name"].as_str() == Some(name));
        found.map(|entry| &entry[inner]).ok_or_else(|| self.wrong(&format!("its {list} have none called {name:?}")))
    }

    fn text(&self, of: &'a Yaml, key: &str) -> Result<&'a str, KubernetesError> {
        of[key].as_str().ok_or_else(|| self.wrong(&format!("`{key}` is missing")))
    }

    fn identity(&self, user: &Yaml) -> Result<Identity, KubernetesError> {
        if let (Some(chain), Some(key)) = (self.data(user, "client-certificate")?, self.data(user, "client-key")?) {
            return Ok(Identity::Certificate(certificates("the client's certificate", &chain)?, KeyPem(key)));
        }
        if let Some(file) = user["tokenFile"].as_str() {
            return Ok(Identity::TokenFile(self.beside(file)));
        }
        match user["token"].as_str() {
            Some(token) => Ok(Identity::Token(token.to_owned())),
            None => Err(self.wrong(
                "its user has neither a client-certificate with a client-key nor a token; programs and providers that \
                 fetch one are not supported: write a token of `kubectl create token` to a file, and name it as tokenFile",
            )),
        }
    }

    /// The content of `KEY-data`, or of the file that `KEY` names.
    fn data(&self, of: &Yaml, key: &str) -> Result<Option<Vec<u8>>, KubernetesError> {
        if let Some(text) = of[format!("{key}-data").as_str()].as_str() {
            let decoded = data_encoding::BASE64.decode(text.trim().as_bytes());
            return decoded.map(Some).map_err(|_| self.wrong(&format!("`{key}-data` is no base64")));
        }
        of[key].as_str().map(|file| read_file(&self.beside(file))).transpose()
    }

    /// Files are named relative to the kubeconfig.
    fn beside(&self, file: &str) -> PathBuf {
        self.path.parent().unwrap_or(Path::new("")).join(file)
    }
}

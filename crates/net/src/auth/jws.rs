//! Signed tokens: reads, checks and makes compact JWS (RFC 7515) with the keys of a JWK set.
//!
//! A token says by which algorithm it is signed, and an attacker writes what they like
//! there. So the list of algorithms is ours, none of them is symmetric, and a key is
//! used for the algorithms of its own kind alone. A key or an address in the header is
//! never looked at: keys come from the issuer.
//!
//! Claims are checked elsewhere: [`switchboard_proto::auth::claims`].

use std::fmt;

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::rsa::PublicKeyComponents;
use ring::signature::{
    self, ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED,
    ED25519, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_SHA256, RSA_PSS_2048_8192_SHA256, RsaKeyPair, UnparsedPublicKey,
};
use rustls_pki_types::PrivatePkcs8KeyDer;
use rustls_pki_types::pem::PemObject as _;
use serde_json::{Map, Value, json};

/// Bytes that a token may have; those of large companies have four thousand.
pub const MAX_TOKEN: usize = 16 << 10;

/// Keys of one set that are looked at.
pub const MAX_KEYS: usize = 100;

/// How a token may be signed.
#[expect(missing_docs, reason = "the names of RFC 7518 and RFC 8037")]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SignatureAlgorithm {
    EdDsa,
    Es256,
    Es384,
    Ps256,
    Rs256,
}

impl SignatureAlgorithm {
    /// All that are accepted.
    pub const ALL: [Self; 5] = [Self::EdDsa, Self::Es256, Self::Es384, Self::Ps256, Self::Rs256];

    /// What `alg` calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::EdDsa => "EdDSA",
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::Ps256 => "PS256",
            Self::Rs256 => "RS256",
        }
    }

    fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }
}

/// Why a token is not taken.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum BadToken {
    /// The header asks for something that we do not know (`crit`).
    #[error("the token has an extension that must be understood (crit), and is not")]
    Critical,
    /// It is not three parts of base64url with two JSON objects in them.
    #[error("the token is no signed JWT")]
    Malformed,
    /// Signed otherwise than we accept, or not at all.
    #[error("the token is signed by an algorithm that is not accepted")]
    OtherAlgorithm,
    /// More than [`MAX_TOKEN`].
    #[error("the token is longer than {MAX_TOKEN} bytes")]
    TooLong,
    /// No key of the issuer is under this `kid`.
    #[error("the issuer has no key of that name (kid)")]
    UnknownKey,
    /// The signature is not of that key.
    #[error("the signature is wrong")]
    WrongSignature,
}

/// A token as it came, of which nothing is proven yet.
pub struct SignedToken<'t> {
    signed: &'t str,
    signature: Vec<u8>,
    algorithm: SignatureAlgorithm,
    header: Map<String, Value>,
    claims: Map<String, Value>,
}

/// Whether something is meant as a JWT: its first part is the header of one.
pub fn looks_like_jwt(token: &str) -> bool {
    let first = token.split_once('.').filter(|_| token.len() <= MAX_TOKEN);
    first.and_then(|(header, _)| object(header)).is_some()
}

fn object(part: &str) -> Option<Map<String, Value>> {
    serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(part).ok()?).ok()
}

impl<'t> SignedToken<'t> {
    /// Reads a token and checks nothing but its form.
    pub fn parse(token: &'t str) -> Result<Self, BadToken> {
        if token.len() > MAX_TOKEN {
            return Err(BadToken::TooLong);
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(BadToken::Malformed)?;
        let (header, claims) = signed.split_once('.').ok_or(BadToken::Malformed)?;
        let header = object(header).ok_or(BadToken::Malformed)?;
        let algorithm = header.get("alg").and_then(Value::as_str).unwrap_or_default();
        let algorithm = SignatureAlgorithm::find(algorithm).ok_or(BadToken::OtherAlgorithm)?;
        if header.contains_key("crit") {
            return Err(BadToken::Critical);
        }
        // A dot is no letter of base64url, so that there are three parts and no more.
        let claims = object(claims).ok_or(BadToken::Malformed)?;
        let signature =
            BASE64_URL_SAFE_NO_PAD.decode(signature).map_err(|_| BadToken::Malformed)?;
        Ok(Self { signed, signature, algorithm, header, claims })
    }

    /// What it says, which anybody may have written before [`verify`](Self::verify).
    pub fn claims(&self) -> &Map<String, Value> {
        &self.claims
    }

    /// Its `typ`.
    pub fn typ(&self) -> Option<&str> {
        self.header.get("typ").map(|typ| typ.as_str().unwrap_or_default())
    }

    /// Which of these keys signed it.
    pub fn verify<'k>(&self, keys: impl Iterator<Item = &'k PublicJwk>) -> Result<usize, BadToken> {
        let kid = self.header.get("kid").and_then(Value::as_str);
        let fits = |(_, key): &(usize, &PublicJwk)| {
            let is_named = kid.is_none() || key.kid.is_none() || key.kid.as_deref() == kid;
            is_named && key.signs_by(self.algorithm)
        };
        let mut fitting = keys.enumerate().filter(fits).peekable();
        if fitting.peek().is_none() {
            return Err(BadToken::UnknownKey);
        }
        let signed = self.signed.as_bytes();
        let by = fitting.find(|(_, key)| key.verifies(self.algorithm, signed, &self.signature));
        by.map(|(at, _)| at).ok_or(BadToken::WrongSignature)
    }
}

impl fmt::Debug for SignedToken<'_> {
    /// Whoever has the token has what it opens.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignedToken").field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}

/// A public key of an issuer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PublicJwk {
    kid: Option<String>,
    /// The one algorithm that it is for, if it says so.
    only: Option<SignatureAlgorithm>,
    material: Material,
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum Material {
    /// X and Y of a point on P-256, uncompressed.
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
}

/// Bytes of the smallest RSA modulus, of 2048 bits.
const LEAST_RSA: usize = 256;

impl PublicJwk {
    /// The keys of a set that may sign tokens; others are for other purposes.
    pub fn read_set(set: &Value) -> Option<Vec<Self>> {
        let keys = set.get("keys")?.as_array()?;
        Some(keys.iter().take(MAX_KEYS).filter_map(Self::read).collect())
    }

    /// A key that signatures can be checked with.
    pub fn read(key: &Value) -> Option<Self> {
        let text = |name: &str| key.get(name).and_then(Value::as_str);
        let bytes = |name: &str| BASE64_URL_SAFE_NO_PAD.decode(text(name)?).ok();
        if text("use").is_some_and(|it| it != "sig") {
            return None;
        }
        let operations = key.get("key_ops").and_then(Value::as_array);
        if operations.is_some_and(|all| all.iter().all(|it| it != "verify")) {
            return None;
        }
        let point = |length: usize| {
            let (x, y) = (bytes("x")?, bytes("y")?);
            let is_whole = x.len() == length && y.len() == length;
            is_whole.then(|| [&[4], &*x, &*y].concat())
        };
        let material = match (text("kty")?, text("crv")) {
            ("EC", Some("P-256")) => Material::P256(point(32)?),
            ("EC", Some("P-384")) => Material::P384(point(48)?),
            ("OKP", Some("Ed25519")) => Material::Ed25519(bytes("x").filter(|x| x.len() == 32)?),
            ("RSA", _) => {
                // ring refuses numbers that begin with zeros.
                let number = |name| {
                    let bytes = bytes(name)?;
                    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
                    Some(bytes[zeros..].to_vec())
                };
                let (n, e) = (number("n")?, number("e")?);
                // ring counts the bits themselves.
                (n.len() >= LEAST_RSA).then_some(Material::Rsa { n, e })?
            }
            _ => return None,
        };
        let only = match text("alg") {
            Some(name) => Some(SignatureAlgorithm::find(name)?),
            None => None,
        };
        Some(Self { kid: text("kid").map(str::to_owned), only, material })
    }

    fn signs_by(&self, algorithm: SignatureAlgorithm) -> bool {
        let is_of_kind = matches!(
            (&self.material, algorithm),
            (Material::Ed25519(_), SignatureAlgorithm::EdDsa)
                | (Material::P256(_), SignatureAlgorithm::Es256)
                | (Material::P384(_), SignatureAlgorithm::Es384)
                | (Material::Rsa { .. }, SignatureAlgorithm::Ps256 | SignatureAlgorithm::Rs256)
        );
        is_of_kind && self.only.is_none_or(|only| only == algorithm)
    }

    fn verifies(&self, algorithm: SignatureAlgorithm, signed: &[u8], signature: &[u8]) -> bool {
        let verified =
            match &self.material {
                Material::P256(point) => UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point)
                    .verify(signed, signature),
                Material::P384(point) => UnparsedPublicKey::new(&ECDSA_P384_SHA384_FIXED, point)
                    .verify(signed, signature),
                Material::Ed25519(key) => {
                    UnparsedPublicKey::new(&ED25519, key).verify(signed, signature)
                }
                Material::Rsa { n, e } => {
                    let padding = match algorithm {
                        SignatureAlgorithm::Ps256 => &RSA_PSS_2048_8192_SHA256,
                        _ => &RSA_PKCS1_2048_8192_SHA256,
                    };
                    PublicKeyComponents { n, e }.verify(padding, signed, signature)
                }
            };
        verified.is_ok()
    }
}

/// Why there is no key to sign with, or no signature.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SignError {
    /// Not a PKCS#8 key of a kind that we sign with.
    #[error("this is no private key (PKCS#8, PEM) of P-256, Ed25519 or RSA with 2048 bits")]
    BadKey,
    /// The system has no random numbers.
    #[error("the system has no random numbers")]
    NoRandomness,
}

/// Signs tokens with one key.
pub struct Signer {
    pair: SigningPair,
}

enum SigningPair {
    Ed25519(Box<Ed25519KeyPair>),
    P256(Box<EcdsaKeyPair>),
    Rsa(Box<RsaKeyPair>),
}

impl Signer {
    /// Signs with the private key of a PEM file: P-256, Ed25519 or RSA, in PKCS#8.
    pub fn from_pem(pem: &str) -> Result<Self, SignError> {
        let key = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes());
        let key = key.map_err(|_| SignError::BadKey)?;
        let der = key.secret_pkcs8_der();
        let rng = SystemRandom::new();
        let pair = if let Ok(pair) =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der, &rng)
        {
            SigningPair::P256(Box::new(pair))
        } else if let Ok(pair) = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der) {
            SigningPair::Ed25519(Box::new(pair))
        } else {
            let pair = RsaKeyPair::from_pkcs8(der).map_err(|_| SignError::BadKey)?;
            SigningPair::Rsa(Box::new(pair))
        };
        Ok(Self { pair })
    }

    /// Signs with a key of its own, which lives as long as this does.
    pub fn generate_es256() -> Result<Self, SignError> {
        Self::from_pem(&generate_pem()?)
    }

    /// By which algorithm it signs.
    pub fn algorithm(&self) -> SignatureAlgorithm {
        match &self.pair {
            SigningPair::Ed25519(_) => SignatureAlgorithm::EdDsa,
            SigningPair::P256(_) => SignatureAlgorithm::Es256,
            SigningPair::Rsa(_) => SignatureAlgorithm::Rs256,
        }
    }

    /// The public key, with its thumbprint (RFC 7638) as `kid`.
    pub fn public_jwk(&self) -> Value {
        let text = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
        // The members that a thumbprint is of; a map of JSON has them in their order.
        let mut key = match &self.pair {
            SigningPair::P256(pair) => {
                let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
                json!({"crv": "P-256", "kty": "EC", "x": text(x), "y": text(y)})
            }
            SigningPair::Ed25519(pair) => {
                json!({"crv": "Ed25519", "kty": "OKP", "x": text(pair.public_key().as_ref())})
            }
            SigningPair::Rsa(pair) => {
                let public: PublicKeyComponents<Vec<u8>> = pair.public_key().into();
                json!({"e": text(&public.e), "kty": "RSA", "n": text(&public.n)})
            }
        };
        let thumbprint = text(digest(&SHA256, key.to_string().as_bytes()).as_ref());
        key["alg"] = self.algorithm().name().into();
        key["kid"] = thumbprint.into();
        key["use"] = "sig".into();
        key
    }

    /// The claims as a token; `alg` is added to the header.
    pub fn sign(&self, mut header: Value, claims: &Value) -> Result<String, SignError> {
        header["alg"] = self.algorithm().name().into();
        let part = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
        let mut token = format!("{}.{}", part(&header), part(claims));
        let (rng, text) = (SystemRandom::new(), token.as_bytes());
        let signature = match &self.pair {
            SigningPair::Ed25519(pair) => pair.sign(text).as_ref().to_vec(),
            SigningPair::P256(pair) => {
                let signature = pair.sign(&rng, text).map_err(|_| SignError::NoRandomness)?;
                signature.as_ref().to_vec()
            }
            SigningPair::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                let padding: &dyn signature::RsaEncoding = &RSA_PKCS1_SHA256;
                let signed = pair.sign(padding, &rng, text, &mut signature);
                signed.map_err(|_| SignError::NoRandomness)?;
                signature
            }
        };
        token.push('.');
        token.push_str(&BASE64_URL_SAFE_NO_PAD.encode(signature));
        Ok(token)
    }
}

impl fmt::Debug for Signer {
    /// The key stays where it is.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer").field("algorithm", &self.algorithm()).finish_non_exhaustive()
    }
}

/// A new private key of P-256 as PEM, for [`Signer::from_pem`].
pub fn generate_pem() -> Result<String, SignError> {
    let rng = SystemRandom::new();
    let der = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &rng);
    let der = der.map_err(|_| SignError::NoRandomness)?;
    let text = BASE64_STANDARD.encode(der.as_ref());
    let mut pem = "-----BEGIN PRIVATE KEY-----\n".to_owned();
    // Lines of 64, as RFC 7468 has them.
    for line in text.as_bytes().chunks(64) {
        pem.extend(line.iter().map(|byte| char::from(*byte)));
        pem.push('\n');
    }
    pem.push_str("-----END PRIVATE KEY-----\n");
    Ok(pem)
}

#[cfg(test)]
#[path = "jws/tests.rs"] // also where a fuzz target includes this file
mod tests;

//! Signed tokens of real keys, and those that attackers would send.

use super::*;

/// Private keys that were made for these tests, and open nothing.
const RSA: &str = include_str!("rsa.pem");
const SMALL_RSA: &str = include_str!("rsa1024.pem");
const ED25519_KEY: &str = include_str!("ed25519.pem");

fn keys(signers: &[&Signer]) -> Vec<PublicJwk> {
    let keys: Vec<_> = signers.iter().map(|signer| signer.public_jwk()).collect();
    PublicJwk::read_set(&json!({"keys": keys})).unwrap()
}

fn kid(signer: &Signer) -> Value {
    json!({"kid": signer.public_jwk()["kid"]})
}

fn judge(token: &str, keys: &[PublicJwk]) -> Result<(), BadToken> {
    SignedToken::parse(token)?.verify(keys.iter()).map(drop)
}

fn encoded(text: &str) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(text)
}

// wire: OR-9
#[test]
fn what_each_kind_of_key_signs_is_verified_by_it_and_by_no_other() {
    let signers =
        [RSA, ED25519_KEY, &generate_pem().unwrap()].map(|pem| Signer::from_pem(pem).unwrap());
    let names: Vec<_> = signers.iter().map(|signer| signer.algorithm().name()).collect();
    assert_eq!(names, ["RS256", "EdDSA", "ES256"]);
    let all = keys(&signers.each_ref());
    for signer in &signers {
        let token = signer.sign(kid(signer), &json!({"sub": "ada"})).unwrap();
        assert_eq!(judge(&token, &all), Ok(()));
        let bare = signer.sign(json!({}), &json!({"sub": "ada"})).unwrap();
        assert_eq!(judge(&bare, &all), Ok(()), "without kid, by its type");
        let parsed = SignedToken::parse(&token).unwrap();
        assert_eq!(parsed.claims()["sub"], "ada");
        let other = Signer::generate_es256().unwrap();
        assert_eq!(judge(&token, &keys(&[&other])), Err(BadToken::UnknownKey));
        assert!(!format!("{signer:?} {parsed:?}").contains("ada"));
    }
    let (one, other) = (Signer::generate_es256().unwrap(), Signer::generate_es256().unwrap());
    let forged = other.sign(kid(&one), &json!({})).unwrap();
    assert_eq!(judge(&forged, &keys(&[&one])), Err(BadToken::WrongSignature));
}

// wire: OA-12, OA-16
#[test]
fn tokens_that_choose_their_own_algorithm_or_key_are_refused() {
    let signer = Signer::from_pem(RSA).unwrap();
    let (all, public) = (keys(&[&signer]), signer.public_jwk());
    let good = signer.sign(kid(&signer), &json!({"sub": "ada"})).unwrap();
    let parts: Vec<_> = good.split('.').collect();
    let claims = parts[1];
    let with = |header: Value, signature: &str| {
        format!("{}.{claims}.{signature}", encoded(&header.to_string()))
    };
    // The public key as the secret of an HMAC.
    let secret = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, public.to_string().as_bytes());
    let text = format!("{}.{claims}", encoded(r#"{"alg":"HS256"}"#));
    let mac = ring::hmac::sign(&secret, text.as_bytes());
    let hmac = format!("{text}.{}", BASE64_URL_SAFE_NO_PAD.encode(mac.as_ref()));
    let attacker = Signer::generate_es256().unwrap();
    let own_key = attacker.sign(json!({"jwk": attacker.public_jwk()}), &json!({})).unwrap();
    let own_set = attacker
        .sign(json!({"jku": "http://127.0.0.1:1/x", "x5u": "http://127.0.0.1:1/y"}), &json!({}))
        .unwrap();
    let critical = signer.sign(json!({"crit": ["exp"], "exp": 1}), &json!({})).unwrap();
    let odd = |name: &str| signer.sign(json!({"kid": name}), &json!({})).unwrap();
    for (what, token, why) in [
        ("none", with(json!({"alg": "none"}), ""), BadToken::OtherAlgorithm),
        ("None", with(json!({"alg": "None"}), parts[2]), BadToken::OtherAlgorithm),
        ("no alg", with(json!({}), parts[2]), BadToken::OtherAlgorithm),
        ("HS256 with the public key", hmac, BadToken::OtherAlgorithm),
        ("an RSA key as ES256", with(json!({"alg": "ES256"}), parts[2]), BadToken::UnknownKey),
        ("PS256 in place of RS256", with(json!({"alg": "PS256"}), parts[2]), BadToken::UnknownKey),
        ("crit", critical, BadToken::Critical),
        ("jwk", own_key, BadToken::UnknownKey),
        ("jku, x5u", own_set, BadToken::UnknownKey),
        ("empty signature", format!("{}.{claims}.", parts[0]), BadToken::WrongSignature),
        ("two parts", format!("{}.{claims}", parts[0]), BadToken::Malformed),
        ("five parts", format!("{good}.x.y"), BadToken::Malformed),
        ("padding", format!("{good}="), BadToken::Malformed),
        ("no JSON", format!("{}.{}.{}", parts[0], encoded("[1]"), parts[2]), BadToken::Malformed),
        (
            "changed",
            format!("{}.{}.{}", parts[0], encoded(r#"{"sub":"bob"}"#), parts[2]),
            BadToken::WrongSignature,
        ),
        ("kid with a path", odd("../../dev/null"), BadToken::UnknownKey),
        ("kid with SQL", odd("' or '1'='1"), BadToken::UnknownKey),
        ("long", format!("{good}{}", "A".repeat(MAX_TOKEN)), BadToken::TooLong),
    ] {
        assert_eq!(judge(&token, &all), Err(why), "{what}");
    }
}

// wire: OR-9, OA-7
#[test]
fn keys_that_are_weak_symmetric_or_for_other_purposes_are_not_read() {
    let signer = Signer::generate_es256().unwrap();
    let with = |name: &str, value: Value| {
        let mut key = signer.public_jwk();
        key[name] = value;
        PublicJwk::read(&key).is_some()
    };
    assert!(with("use", "sig".into()) && with("key_ops", json!(["verify"])));
    assert!(!with("use", "enc".into()) && !with("key_ops", json!(["sign"])));
    assert!(!with("alg", "HS256".into()) && !with("kty", "oct".into()));
    assert!(!with("x", "AA".into()) && !with("crv", "secp256k1".into()));
    assert_eq!(PublicJwk::read(&json!({"kty": "oct", "k": "AAAA"})), None);
    // ring does not sign with it either.
    assert_eq!(Signer::from_pem(SMALL_RSA).err(), Some(SignError::BadKey));
    let small = json!({"kty": "RSA", "e": "AQAB", "n": BASE64_URL_SAFE_NO_PAD.encode([255; 128])});
    assert_eq!(PublicJwk::read(&small), None);
    let many: Vec<_> = (0..MAX_KEYS + 9).map(|_| signer.public_jwk()).collect();
    assert_eq!(PublicJwk::read_set(&json!({"keys": many})).unwrap().len(), MAX_KEYS);
    assert_eq!(PublicJwk::read_set(&json!({"keys": "x"})), None);
}

#[test]
fn keys_for_one_algorithm_alone_verify_no_other() {
    let signer = Signer::from_pem(RSA).unwrap();
    let token = signer.sign(json!({}), &json!({})).unwrap();
    let mut key = signer.public_jwk();
    key["alg"] = "PS256".into();
    assert_eq!(judge(&token, &[PublicJwk::read(&key).unwrap()]), Err(BadToken::UnknownKey));
}

#[test]
fn the_name_of_a_key_is_its_thumbprint() {
    let signer = Signer::from_pem(ED25519_KEY).unwrap();
    let key = signer.public_jwk();
    let members = format!(r#"{{"crv":"Ed25519","kty":"OKP","x":{}}}"#, key["x"]);
    let thumbprint = BASE64_URL_SAFE_NO_PAD.encode(digest(&SHA256, members.as_bytes()));
    assert_eq!(key["kid"], thumbprint);
}

#[test]
fn what_is_meant_as_a_jwt_is_told_from_keys() {
    let token = Signer::generate_es256().unwrap().sign(json!({}), &json!({})).unwrap();
    let two = token.rsplit_once('.').unwrap().0;
    for (text, is_jwt) in [
        (&*token, true),
        (two, true),
        ("sb_T48yT-kO2OlpLp2bWRd6sXNC01yjCs3QRLZSjEAm374", false),
        ("key.with.dots", false),
        ("eyJ", false),
        ("", false),
    ] {
        assert_eq!(looks_like_jwt(text), is_jwt, "{text}");
    }
}

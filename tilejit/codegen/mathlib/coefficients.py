"""Coefficients and constants: made by `tests/codegen/math_fits.py`, never by hand."""

#: The first bits of 2/pi after the point.
TWO_OVER_PI_BITS = 1280
TWO_OVER_PI_FRACTION = int(
    "a2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561b7246e3a424dd2e0"
    "06492eea09d1921cfe1deb1cb129a73ee88235f52ebb4484e99c7026b45f7e413991d639835339f4"
    "9c845f8bbdf9283b1ff897ffde05980fef2f118b5a0a6d1f6d367ecf27cb09b74f463f669e5fea2d"
    "7527bac7ebe5f17b3d0739f78a5292ea6bfb5fb11f8d5d0856033046fc7b6babf0cfbc209af4361d",
    16,
)

#: Polynomials, lowest power first, and irrational constants, largest part first.
COEFFICIENTS: dict[str, dict[str, tuple[float, ...]]] = {
    "float32": {
        # (exp(r) - 1 - r) / r² over r, |r| <= ln(2)/2; error 2^-23.95
        "EXP": (
            float.fromhex("0x1.fffffe0000000p-2"),
            float.fromhex("0x1.5554e00000000p-3"),
            float.fromhex("0x1.5557b60000000p-5"),
            float.fromhex("0x1.1208d40000000p-7"),
            float.fromhex("0x1.6a55c60000000p-10"),
        ),
        # (2^r - 1) / r over r, |r| <= 1/2; error 2^-26.99
        "EXP2": (
            float.fromhex("0x1.62e4300000000p-1"),
            float.fromhex("0x1.ebfbe00000000p-3"),
            float.fromhex("0x1.c6af6c0000000p-5"),
            float.fromhex("0x1.3b29e40000000p-7"),
            float.fromhex("0x1.5f08c40000000p-10"),
            float.fromhex("0x1.446c3a0000000p-13"),
        ),
        # (log(1 + f) - f) / f² over f, sqrt(1/2) <= 1 + f <= sqrt(2); error 2^-27.82
        "LOG": (
            float.fromhex("-0x1.fffff80000000p-2"),
            float.fromhex("0x1.5555440000000p-2"),
            float.fromhex("-0x1.0003fe0000000p-2"),
            float.fromhex("0x1.99a96a0000000p-3"),
            float.fromhex("-0x1.5432440000000p-3"),
            float.fromhex("0x1.22115c0000000p-3"),
            float.fromhex("-0x1.0e84200000000p-3"),
            float.fromhex("0x1.0a56cc0000000p-3"),
            float.fromhex("-0x1.4072240000000p-4"),
        ),
        # log2(1 + f) / f over f, sqrt(1/2) <= 1 + f <= sqrt(2); error 2^-27.34
        "LOG2": (
            float.fromhex("0x1.7154760000000p+0"),
            float.fromhex("-0x1.7154700000000p-1"),
            float.fromhex("0x1.ec70960000000p-2"),
            float.fromhex("-0x1.715a760000000p-2"),
            float.fromhex("0x1.277e360000000p-2"),
            float.fromhex("-0x1.eabc880000000p-3"),
            float.fromhex("0x1.a305a80000000p-3"),
            float.fromhex("-0x1.874be60000000p-3"),
            float.fromhex("0x1.7d49380000000p-3"),
            float.fromhex("-0x1.c25a4a0000000p-4"),
        ),
        # (log2((1 + u) / (1 - u)) - (2u + 2u³/3)/ln(2)) / u⁵ over u², |u| <= (sqrt(2) - 1)²; error 2^-22.12
        "ATANH": (
            float.fromhex("0x1.2776cc0000000p-1"),
            float.fromhex("0x1.a5f46e0000000p-2"),
            float.fromhex("0x1.5485680000000p-2"),
        ),
        # (sin(r) - r) / r³ over r², |r| <= pi/4; error 2^-25.53
        "SIN": (
            float.fromhex("-0x1.5555520000000p-3"),
            float.fromhex("0x1.110c120000000p-7"),
            float.fromhex("-0x1.9abcd00000000p-13"),
        ),
        # (cos(r) - 1 + r²/2) / r⁴ over r², |r| <= pi/4; error 2^-28.85
        "COS": (
            float.fromhex("0x1.5555540000000p-5"),
            float.fromhex("-0x1.6c12c00000000p-10"),
            float.fromhex("0x1.9bce340000000p-16"),
        ),
        # (tanh(x) - x) / x³ over x², |x| <= 9/16; error 2^-25.95
        "TANH": (
            float.fromhex("-0x1.5555540000000p-2"),
            float.fromhex("0x1.110fc20000000p-3"),
            float.fromhex("-0x1.b9934e0000000p-5"),
            float.fromhex("0x1.5c807c0000000p-6"),
            float.fromhex("-0x1.ac6f680000000p-8"),
        ),
        # erf(x) / x - 1 over x², |x| <= 1; error 2^-24.63
        "ERF": (
            float.fromhex("0x1.06eba20000000p-3"),
            float.fromhex("-0x1.8126880000000p-2"),
            float.fromhex("0x1.ce0bb20000000p-4"),
            float.fromhex("-0x1.b5be2e0000000p-6"),
            float.fromhex("0x1.42c01a0000000p-8"),
            float.fromhex("-0x1.28c08a0000000p-11"),
        ),
        # log2(erfc(a)) over a - 7/4 (float32) or a - 2 (float64), a from 1 to erf_limit; error 2^-29.33
        "ERFC": (
            float.fromhex("-0x1.8eadd80000000p+2"),
            float.fromhex("-0x1.6d99c60000000p+2"),
            float.fromhex("-0x1.5011180000000p+0"),
            float.fromhex("-0x1.e55fbe0000000p-6"),
            float.fromhex("0x1.b3bb780000000p-8"),
            float.fromhex("-0x1.76d2100000000p-10"),
            float.fromhex("0x1.18bb400000000p-12"),
        ),
        # (Phi(x) - 1/2) / x over x², |x| <= 1; error 2^-25.99
        "PHI": (
            float.fromhex("0x1.9884520000000p-2"),
            float.fromhex("-0x1.10576c0000000p-4"),
            float.fromhex("0x1.469c7e0000000p-7"),
            float.fromhex("-0x1.329e1c0000000p-10"),
            float.fromhex("0x1.8be0580000000p-14"),
        ),
        # exp(a²/2)·Phi(-a)·(a + 4) over v = 1 - 2a/(a + 4), a >= 1; error 2^-33.04
        "GELU": (
            float.fromhex("0x1.82b4bc0000000p-1"),
            float.fromhex("0x1.373e3a0000000p-1"),
            float.fromhex("0x1.8c6dc00000000p-2"),
            float.fromhex("0x1.7dff380000000p-3"),
            float.fromhex("0x1.eec4a40000000p-5"),
            float.fromhex("0x1.ee0dfa0000000p-8"),
            float.fromhex("-0x1.c804800000000p-9"),
            float.fromhex("-0x1.a8d64c0000000p-10"),
            float.fromhex("0x1.142bc00000000p-13"),
            float.fromhex("0x1.a4ddb60000000p-13"),
        ),
        "LOG2E": (
            float.fromhex("0x1.7154760000000p+0"),
        ),
        "LN2": (
            float.fromhex("0x1.62e4300000000p-1"),
            float.fromhex("-0x1.05c6100000000p-29"),
        ),
        "TWO_OVER_LN2": (
            float.fromhex("0x1.7154760000000p+1"),
            float.fromhex("0x1.4ae0c00000000p-25"),
        ),
        "TWO_OVER_3LN2": (
            float.fromhex("0x1.ec709e0000000p-1"),
            float.fromhex("-0x1.e2fe020000000p-28"),
        ),
        "TWO_OVER_PI": (
            float.fromhex("0x1.45f3060000000p-1"),
        ),
        "HALF_PI": (
            float.fromhex("0x1.921fb60000000p+0"),
            float.fromhex("-0x1.777a5c0000000p-25"),
            float.fromhex("-0x1.ee59da0000000p-50"),
        ),
        "SQRT_HALF": (
            float.fromhex("0x1.6a09e60000000p-1"),
        ),
    },
    "float64": {
        # (exp(r) - 1 - r) / r² over r, |r| <= ln(2)/2; error 2^-53.12
        "EXP": (
            float.fromhex("0x1.0000000000001p-1"),
            float.fromhex("0x1.5555555555538p-3"),
            float.fromhex("0x1.5555555553e3ap-5"),
            float.fromhex("0x1.111111111dba4p-7"),
            float.fromhex("0x1.6c16c17845bfep-10"),
            float.fromhex("0x1.a01a014515f57p-13"),
            float.fromhex("0x1.a019b9f6eb18cp-16"),
            float.fromhex("0x1.71df203e88ad6p-19"),
            float.fromhex("0x1.289091e6e3812p-22"),
            float.fromhex("0x1.ad3bba9f537ffp-26"),
        ),
        # (2^r - 1) / r over r, |r| <= 1/2; error 2^-56.17
        "EXP2": (
            float.fromhex("0x1.62e42fefa39efp-1"),
            float.fromhex("0x1.ebfbdff82c598p-3"),
            float.fromhex("0x1.c6b08d704a0cbp-5"),
            float.fromhex("0x1.3b2ab6fba1dc4p-7"),
            float.fromhex("0x1.5d87fe78a2cdcp-10"),
            float.fromhex("0x1.4309130975867p-13"),
            float.fromhex("0x1.ffcbfc74382e9p-17"),
            float.fromhex("0x1.62bfd46655d78p-20"),
            float.fromhex("0x1.b524dccbc74afp-24"),
            float.fromhex("0x1.e606616641a08p-28"),
            float.fromhex("0x1.ea042c1505621p-32"),
        ),
        # (log(1 + f) - f) / f² over f, sqrt(1/2) <= 1 + f <= sqrt(2); error 2^-56.8
        "LOG": (
            float.fromhex("-0x1.0000000000004p-1"),
            float.fromhex("0x1.555555555553ap-2"),
            float.fromhex("-0x1.fffffffffd9b1p-3"),
            float.fromhex("0x1.999999999ca33p-3"),
            float.fromhex("-0x1.5555555708cdbp-3"),
            float.fromhex("0x1.249249247c3f0p-3"),
            float.fromhex("-0x1.fffffee79769cp-4"),
            float.fromhex("0x1.c71c70db8ac91p-4"),
            float.fromhex("-0x1.9999ca34dca8ap-4"),
            float.fromhex("0x1.745d64822a49ap-4"),
            float.fromhex("-0x1.55507a00b3c8ep-4"),
            float.fromhex("0x1.3b0886b472202p-4"),
            float.fromhex("-0x1.24d9b08d2f04dp-4"),
            float.fromhex("0x1.11efa29bba5e5p-4"),
            float.fromhex("-0x1.fbcba091ef8ebp-5"),
            float.fromhex("0x1.ceca065b1395cp-5"),
            float.fromhex("-0x1.ce86ce026c560p-5"),
            float.fromhex("0x1.0bc168d820516p-4"),
            float.fromhex("-0x1.f3a17c0c8a0f0p-5"),
            float.fromhex("0x1.b92ea373803b0p-6"),
        ),
        # log2(1 + f) / f over f, sqrt(1/2) <= 1 + f <= sqrt(2); error 2^-56.31
        "LOG2": (
            float.fromhex("0x1.71547652b82fep+0"),
            float.fromhex("-0x1.71547652b8304p-1"),
            float.fromhex("0x1.ec709dc3a0392p-2"),
            float.fromhex("-0x1.71547652b6763p-2"),
            float.fromhex("0x1.2776c50f00073p-2"),
            float.fromhex("-0x1.ec709dc612491p-3"),
            float.fromhex("0x1.a61762a449b12p-3"),
            float.fromhex("-0x1.71547587c0c3cp-3"),
            float.fromhex("0x1.484b13da0c492p-3"),
            float.fromhex("-0x1.2776e8a89e462p-3"),
            float.fromhex("0x1.0c9aa82503d40p-3"),
            float.fromhex("-0x1.ec69641898a60p-4"),
            float.fromhex("0x1.c681fec2f3b66p-4"),
            float.fromhex("-0x1.a683dcf316a6ap-4"),
            float.fromhex("0x1.8b1961507119ap-4"),
            float.fromhex("-0x1.6e0333a09489dp-4"),
            float.fromhex("0x1.4e556f901810ap-4"),
            float.fromhex("-0x1.4f96fed66d593p-4"),
            float.fromhex("0x1.8213a67acae52p-4"),
            float.fromhex("-0x1.630345d452e11p-4"),
            float.fromhex("0x1.352fd2443229dp-5"),
        ),
        # (log2((1 + u) / (1 - u)) - (2u + 2u³/3)/ln(2)) / u⁵ over u², |u| <= (sqrt(2) - 1)²; error 2^-65.57
        "ATANH": (
            float.fromhex("0x1.2776c50ef9bfep-1"),
            float.fromhex("0x1.a61762a7aded7p-2"),
            float.fromhex("0x1.484b13d7c0903p-2"),
            float.fromhex("0x1.0c9a8498b629dp-2"),
            float.fromhex("0x1.c68f5748b8d37p-3"),
            float.fromhex("0x1.89f369e97c1b0p-3"),
            float.fromhex("0x1.5baac3c4a0e23p-3"),
            float.fromhex("0x1.34f196a1f7674p-3"),
            float.fromhex("0x1.3e04422048194p-3"),
        ),
        # (sin(r) - r) / r³ over r², |r| <= pi/4; error 2^-55.36
        "SIN": (
            float.fromhex("-0x1.5555555555555p-3"),
            float.fromhex("0x1.1111111110b6dp-7"),
            float.fromhex("-0x1.a01a019e736d2p-13"),
            float.fromhex("0x1.71de37818b695p-19"),
            float.fromhex("-0x1.ae5ff535e10ffp-26"),
            float.fromhex("0x1.5e03475132dbdp-33"),
        ),
        # (cos(r) - 1 + r²/2) / r⁴ over r², |r| <= pi/4; error 2^-59.36
        "COS": (
            float.fromhex("0x1.5555555555555p-5"),
            float.fromhex("-0x1.6c16c16c16944p-10"),
            float.fromhex("0x1.a01a019f468bfp-16"),
            float.fromhex("-0x1.27e4fa0d5485bp-22"),
            float.fromhex("0x1.1eeb5dfccf6f8p-29"),
            float.fromhex("-0x1.9075ccae9c6d3p-37"),
        ),
        # (tanh(x) - x) / x³ over x², |x| <= 9/16; error 2^-56.26
        "TANH": (
            float.fromhex("-0x1.5555555555555p-2"),
            float.fromhex("0x1.1111111110fcep-3"),
            float.fromhex("-0x1.ba1ba1b9f33ffp-5"),
            float.fromhex("0x1.664f48730086ap-6"),
            float.fromhex("-0x1.226e32366b982p-7"),
            float.fromhex("0x1.d6d31378ca0b6p-9"),
            float.fromhex("-0x1.7d957d720bbcbp-10"),
            float.fromhex("0x1.34af1fb2639ebp-11"),
            float.fromhex("-0x1.eb09428e9df58p-13"),
            float.fromhex("0x1.61acd48ed8a69p-14"),
            float.fromhex("-0x1.509a0f3ac0a77p-16"),
        ),
        # erf(x) / x - 1 over x², |x| <= 1; error 2^-56.96
        "ERF": (
            float.fromhex("0x1.06eba8214db68p-3"),
            float.fromhex("-0x1.812746b0379c2p-2"),
            float.fromhex("0x1.ce2f21a041017p-4"),
            float.fromhex("-0x1.b82ce3120627bp-6"),
            float.fromhex("0x1.565bccfa99e90p-8"),
            float.fromhex("-0x1.c02db072db06cp-11"),
            float.fromhex("0x1.f9a2bf717d858p-14"),
            float.fromhex("-0x1.f4ca947265a02p-17"),
            float.fromhex("0x1.b9827996fa280p-20"),
            float.fromhex("-0x1.5c16d9d6f5055p-23"),
            float.fromhex("0x1.d784541e4e326p-27"),
            float.fromhex("-0x1.acdf3eb67afb3p-31"),
        ),
        # log2(erfc(a)) over a - 7/4 (float32) or a - 2 (float64), a from 1 to erf_limit; error 2^-56.55
        "ERFC": (
            float.fromhex("-0x1.ef5bbc912e9dep+2"),
            float.fromhex("-0x1.97f093d6590d2p+2"),
            float.fromhex("-0x1.552b38b782684p+0"),
            float.fromhex("-0x1.85301a3628be6p-6"),
            float.fromhex("0x1.519c099b210abp-8"),
            float.fromhex("-0x1.14fd2b259f084p-10"),
            float.fromhex("0x1.99629fec99ff4p-13"),
            float.fromhex("-0x1.f530154fbe0e5p-16"),
            float.fromhex("0x1.7a031f49f1259p-19"),
            float.fromhex("0x1.3b96fccb71f5dp-22"),
            float.fromhex("-0x1.0c41d99e36dc9p-22"),
            float.fromhex("0x1.65817f44d8ec1p-24"),
            float.fromhex("-0x1.5abedaca35c96p-26"),
            float.fromhex("0x1.02b56c900d7bap-28"),
            float.fromhex("-0x1.977d812990d62p-32"),
            float.fromhex("-0x1.c5dfa3b7fe21ep-34"),
            float.fromhex("0x1.d0bcb4ce52344p-35"),
            float.fromhex("-0x1.edee6da41323cp-38"),
        ),
        # (Phi(x) - 1/2) / x over x², |x| <= 1; error 2^-56.84
        "PHI": (
            float.fromhex("0x1.9884533d43650p-2"),
            float.fromhex("-0x1.1058377e2ce70p-4"),
            float.fromhex("0x1.46d0429761d59p-7"),
            float.fromhex("-0x1.37403f68b3e99p-10"),
            float.fromhex("0x1.e42b0c2013c72p-14"),
            float.fromhex("-0x1.3ce8d6cfd5cd3p-17"),
            float.fromhex("0x1.6584faadea54ep-21"),
            float.fromhex("-0x1.61acf84729bdcp-25"),
            float.fromhex("0x1.32199b0b5508dp-29"),
            float.fromhex("-0x1.8d10870b7f2b9p-34"),
        ),
        # exp(a²/2)·Phi(-a)·(a + 4) over v = 1 - 2a/(a + 4), a >= 1; error 2^-56.33
        "GELU": (
            float.fromhex("0x1.82b4bb8c94dcep-1"),
            float.fromhex("0x1.373e3a893c28bp-1"),
            float.fromhex("0x1.8c6dbf2cfc275p-2"),
            float.fromhex("0x1.7dff2bff6809cp-3"),
            float.fromhex("0x1.eec4cc3e55960p-5"),
            float.fromhex("0x1.ee276105a2c1ap-8"),
            float.fromhex("-0x1.c81719e2e15a4p-9"),
            float.fromhex("-0x1.ab82602763596p-10"),
            float.fromhex("0x1.17a4b8d88da1ep-13"),
            float.fromhex("0x1.e4a44cc591269p-13"),
            float.fromhex("-0x1.00300002cad99p-19"),
            float.fromhex("-0x1.26d5108611a41p-15"),
            float.fromhex("0x1.819f94c25fc96p-21"),
            float.fromhex("0x1.8de884c1f3ee2p-18"),
            float.fromhex("-0x1.52d2a5bf6082cp-21"),
            float.fromhex("-0x1.18ad1bd68b44fp-20"),
            float.fromhex("0x1.1c868be7901b7p-22"),
            float.fromhex("0x1.97d24e8247222p-23"),
            float.fromhex("-0x1.139926027341dp-24"),
            float.fromhex("-0x1.31b3ae0eef62bp-25"),
        ),
        "LOG2E": (
            float.fromhex("0x1.71547652b82fep+0"),
        ),
        "LN2": (
            float.fromhex("0x1.62e42fefa39efp-1"),
            float.fromhex("0x1.abc9e3b39803fp-56"),
        ),
        "TWO_OVER_LN2": (
            float.fromhex("0x1.71547652b82fep+1"),
            float.fromhex("0x1.777d0ffda0d24p-55"),
        ),
        "TWO_OVER_3LN2": (
            float.fromhex("0x1.ec709dc3a03fdp-1"),
            float.fromhex("0x1.d27f05548af0cp-55"),
        ),
        "TWO_OVER_PI": (
            float.fromhex("0x1.45f306dc9c883p-1"),
        ),
        "HALF_PI": (
            float.fromhex("0x1.921fb54442d18p+0"),
            float.fromhex("0x1.1a62633145c07p-54"),
            float.fromhex("-0x1.f1976b7ed8fbcp-110"),
        ),
        "SQRT_HALF": (
            float.fromhex("0x1.6a09e667f3bcdp-1"),
        ),
    },
}

"""Words that are too common to be terms, by language: function words and question words, never a negation.

Those of the languages of `clew.core.languages` and, here, of others. They are short on purpose: how rare a word is
decides how much it counts, so that only words matter that stand in questions and in few texts (who, which, how many).
"""

from types import MappingProxyType
from typing import Final

from clew.core.languages import FUNCTION_WORDS

_MORE: Final = {
    "ar": (
        "في من إلى الى على عن مع هو هي هم هذا هذه ذلك تلك التي الذي الذين ما ماذا متى أين اين كيف كم لماذا "
        "أي اي هل كان كانت يكون تكون و أو او ثم أن ان إن قد كل بعض"
    ),
    "bg": (
        "и в във на за от с със до по при като че да се е са беше бяха той тя то те това тази този тези "
        "който която което които кой коя кое кои какво къде кога как защо колко или но"
    ),
    "ca": (
        "el la els les un una uns unes i o però que què qui quin quina quins quines quan com on per perquè "
        "quant quants de del dels al als a en amb és són era eren ser ha han hi es se li seu seva seus "
        "aquest aquesta"
    ),
    "cs": (
        "a i v ve na z ze s se do o od po při pro k ke u je jsou byl byla bylo byli být že který která které "
        "kteří co kdo kde kdy jak proč kolik jaký jaká jaké to ten ta tento tato tyto nebo ale aby jako"
    ),
    "da": (
        "og i på af til fra med for som at der den det de en et er var være blev har havde han hun vi jeg "
        "sig sin sit hvad hvem hvor hvornår hvordan hvorfor hvilken hvilket hvilke mange men eller om"
    ),
    "el": (
        "ο η το οι τα του της των τον την τους τις και ή σε στο στη στην στον στα στις στους από για με ως "
        "που πως πώς τι ποιος ποια ποιο ποιοι ποιες πότε πού γιατί πόσο πόσα πόσοι πόσες είναι ήταν έχει "
        "είχε αυτό αυτή ένα μια μία ένας να θα"
    ),
    "et": ("ja on oli ning või et see need mis kes kus millal kuidas miks kui palju ta nad oma mille milline millised"),
    "fa": "و در به از که را با این آن برای است بود شد می هم یا چه چی کی کجا چگونه چرا چند کدام یک های ها",
    "fi": (
        "ja on oli ovat olivat että se ne hän he tämä joka jotka mikä mitä mitkä kuka ketkä missä milloin "
        "miten miksi kuinka monta paljon tai sekä myös kun jos ollut minkä"
    ),
    "he": "של את על עם אל מן הוא היא הם זה זו אשר מה מי איפה מתי איך למה כמה איזה איזו או גם כי היה הייתה",
    "hi": (
        "का के की को में से पर ने है हैं था थे थी और या यह वह ये वे इस उस जो कि क्या कौन कब कहाँ कहां कैसे "
        "क्यों कितना कितने कितनी किस किसने किसे लिए एक तक भी हो होता होती गया गई गए किया"
    ),
    "hr": (
        "i u na za od s sa do o po je su bio bila bilo bili biti koji koja koje što tko gdje kada kako zašto "
        "koliko da se te ili ali kao"
    ),
    "hu": (
        "a az és vagy hogy egy is van volt voltak lesz mi mit ki kit hol mikor hogyan miért hány melyik mely "
        "milyen mennyi ez azt ezt ami aki de mint"
    ),
    "id": (
        "yang di ke dari dan atau pada untuk dengan adalah ini itu oleh dalam apa siapa kapan mana dimana "
        "bagaimana mengapa kenapa berapa telah akan sebagai juga"
    ),
    "ja": (
        "は が を に の と も へ で や か です ます した して する され れる ある いる この その あの これ "
        "それ 何 誰 どこ いつ なぜ どの どう ですか ますか こと もの から まで より"
    ),
    "ko": (
        "은 는 이 가 을 를 에 의 와 과 도 로 으로 에서 까지 부터 무엇 누구 어디 언제 어떻게 왜 어떤 얼마 입니 니까 습니"
    ),
    "lt": ("ir yra buvo kad į iš su kas kur kada kaip kodėl kiek kuris kuri kurie ar bet apie per jis ji jie tai"),
    "lv": "un ir bija ka uz no ar kas kur kad kā kāpēc cik kurš kura kuri vai bet par viņš viņa tas",
    "no": (
        "og i på av til fra med for som at der den det de en ei et er var være ble har hadde han hun vi jeg "
        "seg sin sitt hva hvem hvor når hvordan hvorfor hvilken hvilket hvilke mange men eller om"
    ),
    "pl": (
        "i w we na z ze do o od po przy za że jest są był była było byli być który która które którzy co kto "
        "gdzie kiedy jak dlaczego ile jaki jaka jakie to ten ta te się oraz lub ale przez dla jako"
    ),
    "ro": (
        "și şi în la de pe cu din pentru că care ce cine unde când cum cât câte câți câţi câtă este sunt era "
        "erau fost fi a au al ale ai un o unei unui se să sau dar prin lui ei lor acest această acesta "
        "aceasta"
    ),
    "sk": (
        "a i v vo na z zo s so do o od po pri pre k ku u je sú bol bola bolo boli byť že ktorý ktorá ktoré "
        "ktorí čo kto kde kedy ako prečo koľko aký aká aké to ten tá tento alebo ale aby sa"
    ),
    "sl": (
        "in v na za od z s do o po je so bil bila bilo bili biti ki kaj kdo kje kdaj kako zakaj koliko "
        "kateri katera katero da se ali pa kot"
    ),
    "sr": (
        "i u na za od s sa do o po je su bio bila bilo bili biti koji koja koje šta ko gde kada kako zašto "
        "koliko da se ili ali kao и у на за од с са до о по је су био била било били који која које шта ко "
        "где када како зашто колико да се или али као"
    ),
    "sv": (
        "och i på av till från med för som att där den det de en ett är var vara blev har hade han hon vi "
        "jag sig sin sitt vad vem vilka när hur varför vilken vilket många men eller om"
    ),
    "th": (
        "ที่ และ ใน ของ เป็น มี ได้ ให้ จะ กับ แก่ คือ ว่า นี้ นั้น อะไร ใคร ไหน เมื่อไร เมื่อไหร่ อย่างไร "
        "ทำไม กี่ เท่าไร เท่าไหร่ หรือ โดย จาก ถึง ซึ่ง ก็ ไหม"
    ),
    "tr": (
        "ve veya ile bir bu şu o için da de ki mi mı mu mü ne nedir neden niçin nasıl nerede nereye nereden "
        "kim kimdir kimin hangi hangisi kaç kaçtır zaman gibi daha en çok olan olarak olduğu ise her kadar "
        "göre idi"
    ),
    "uk": (
        "і й та в у на з із до за від по при що як це він вона воно вони його її їх є був була було були "
        "бути який яка яке які хто де коли чому скільки або але для про"
    ),
    "ur": (
        "کا کے کی کو میں سے پر نے ہے ہیں تھا تھے تھی اور یا یہ وہ اس جو کہ کیا کون کب کہاں کیسے کیوں کتنا کتنے کتنی ایک"
    ),
    "vi": (
        "và hoặc là của có được cho với các những một trong từ này đó đây thì mà ở ra vào bởi theo như cũng "
        "đã đang sẽ gì ai nào đâu sao bao nhiêu mấy khi thế"
    ),
    "zh": (
        "的 了 是 在 和 与 與 及 或 也 都 就 而 但 这 這 那 有 为 為 于 於 以 之 其 被 把 从 從 对 對 到 由 "
        "将 將 并 並 等 个 個 们 們 谁 誰 哪 吗 嗎 呢 吧 什 么 麼 什么 什麼 怎么 怎麼 怎样 怎樣 如何 为何 "
        "為何 哪些 哪个 哪個 哪里 哪裡 哪种 哪種 多少 是谁 是誰 的是 了多 是什 是哪 有多 在哪 一个 一個 这个 "
        "這個 那个 那個"
    ),
}

STOP_WORDS: Final = MappingProxyType(
    {**FUNCTION_WORDS, **{code: frozenset(words.casefold().split()) for code, words in _MORE.items()}}
)
